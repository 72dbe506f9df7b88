/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <string.h>

static struct plan_entry *entry_for_new(struct plans *plans)
{
    struct plan_entry *oldest = &plans->entry[0];

    if (plans->count < MOST_PLANS)
        return &plans->entry[plans->count++];
    for (size_t n = 1; n < MOST_PLANS; n++)
        if (plans->entry[n].used < oldest->used)
            oldest = &plans->entry[n];
    clattn_plan_release(oldest->plan);
    return oldest;
}

static void make(struct plans *plans, struct plan_entry *entry, const struct shape *shape)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_problem problem;

    *entry = (struct plan_entry){.shape = *shape};
    operation_problem(shape, &problem);
    plans->made++;
    if (clattn_plan_create(plans->context, &problem, NULL, &entry->plan) == CLATTN_SUCCESS &&
        clattn_plan_describe(entry->plan, &info) == CLATTN_SUCCESS)
        entry->workspace_bytes = info.workspace_bytes;
}

const struct plan_entry *plans_get(struct plans *plans, const struct shape *shape)
{
    struct plan_entry *entry = NULL;

    for (size_t n = 0; entry == NULL && n < plans->count; n++)
        if (memcmp(&plans->entry[n].shape, shape, sizeof *shape) == 0)
            entry = &plans->entry[n];
    if (entry == NULL) {
        entry = entry_for_new(plans);
        make(plans, entry, shape);
    }
    entry->used = ++plans->clock;
    return entry;
}

void plans_free(struct plans *plans)
{
    for (size_t n = 0; n < plans->count; n++)
        clattn_plan_release(plans->entry[n].plan);
    plans->count = 0;
}
