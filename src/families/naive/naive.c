/* SPDX-License-Identifier: Apache-2.0 */
/* naive: forward attention to read, not to use; see src/families/naive/naive.cl. */
#include "base/sizes.h"
#include "families/registry.h"

extern const char *const ca_source_naive[];

/* A row of o is in private memory; devices need not have more of it. */
enum { MOST_DIM_V = 4096, ITEMS = 64 };

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    if (p->scores != CLATTN_SCORES_NONE)
        return "the scores never lie in memory, so they cannot be handed out";
    if (p->dim_v > MOST_DIM_V)
        return "a row of o of more than 4096 values exceeds a work-item's private memory";
    return NULL;
}

static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    (void)p;
    (void)dev;
    (void)values;
}

static const char *reject(const clattn_problem *p, const clattn_device_info *dev,
                          const size_t *values)
{
    (void)p;
    (void)dev;
    (void)values;
    return NULL;
}

static size_t private_bytes(const clattn_problem *p, const size_t *values)
{
    (void)values;
    return p->dim_v * sizeof(cl_float);
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return CA_ONLY_IF_FORCED;
}

static void ndrange(const clattn_problem *p, const size_t *values, const clattn_device_info *dev,
                    struct ca_ndrange *range)
{
    const size_t items =
        ca_smaller(ITEMS, ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]));

    (void)values;
    *range = (struct ca_ndrange){{ca_round_up(p->batch * p->heads * p->seq_q, items), 1, 1},
                                 {items, 1, 1}};
}

static const struct ca_family family = {
    .name = "naive",
    .full_name = "naive",
    .operation = CLATTN_FORWARD,
    .source = ca_source_naive,
    .stages = {{.kernel = "naive", .arguments = CA_FUSED_ARGUMENTS, .ndrange = ndrange}},
    .num_stages = 1,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .private_bytes = private_bytes,
    .preference = preference,
};

const struct ca_family *const ca_naive[] = {&family, NULL};
