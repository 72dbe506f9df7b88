/* SPDX-License-Identifier: Apache-2.0 */
#include "families/limits.h"
#include "base/log.h"
#include "base/sizes.h"
#include "problem/layout.h"
#include "problem/problem.h"

struct ca_ndrange ca_stage_range(const struct ca_stage *stage, const struct ca_problem *p,
                                 const size_t *values, const clattn_device_info *dev)
{
    enum { MOST_ITEMS = 64 };
    struct ca_ndrange range = stage->ndrange(p, values);

    if (range.local[0] == 0) {
        range.local[0] = ca_smaller(
            MOST_ITEMS, ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]));
        range.global[0] = ca_round_up(range.global[0], range.local[0]);
    }
    return range;
}

/* Returns whether a stage's work-groups and their number fit. */
static int range_fits(const struct ca_ndrange *range, const clattn_device_info *dev)
{
    const cl_ulong most = dev->address_bits < 64 ? CL_UINT_MAX : CL_ULONG_MAX;
    size_t items = 1;

    for (size_t n = 0; n < 3; n++) {
        if (range->local[n] > dev->max_work_item_sizes[n] || range->global[n] > most)
            return 0;
        items *= range->local[n];
    }
    return items <= dev->max_work_group_size;
}

static const char *refuse_tensors(const struct ca_problem *p, char *reason, size_t reason_bytes)
{
    struct ca_tensor tensors[CA_NUM_ARGUMENTS];

    ca_problem_tensors(&p->normal, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        const struct ca_tensor *t = &tensors[n];
        size_t span = 0;
        if (!t->present)
            continue;
        ca_layout_span(&t->layout, t->sizes, &span);
        if (span / CA_BLOCK > CL_UINT_MAX ||
            ca_elements_bytes(span, t->element_bytes, ca_problem_cache(&p->normal, (unsigned)n)) >
                CL_UINT_MAX) {
            ca_reason(reason, reason_bytes,
                      "%s reaches over more bytes than 32-bit addresses tell apart", t->name);
            return reason;
        }
    }
    return NULL;
}

const char *ca_limits_refusal(const struct ca_family *family, const struct ca_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes)
{
    if (ca_problem_empty(&p->normal))
        return NULL;
    if (family->workspace_bytes && family->workspace_bytes(p, values) > dev->max_allocation_bytes)
        return "the workspace exceeds the device's largest allocation";
    for (size_t s = 0; s < family->num_stages; s++) {
        const struct ca_ndrange range = ca_stage_range(&family->stages[s], p, values, dev);
        if (!range_fits(&range, dev))
            return "a work-group or the number of work-items exceeds the device's limits";
    }
    return dev->address_bits < 64 ? refuse_tensors(p, reason, reason_bytes) : NULL;
}
