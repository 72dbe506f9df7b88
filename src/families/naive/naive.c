/* SPDX-License-Identifier: Apache-2.0 */
/* naive: forward attention to read; see src/families/naive/naive.cl. */
#include "families/family_units.h"
#include "families/registry.h"

/* A row of o is in private memory, whose guaranteed size limits dim_v. */
enum { MOST_DIM_V = 4096 };

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the scores never lie in memory, so they cannot be handed out";
    if (p->normal.dim_v > MOST_DIM_V)
        return "a row of o of more than 4096 values exceeds a work-item's private memory";
    return NULL;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    (void)p;
    (void)dev;
    (void)values;
}

static const char *reject(const struct ca_problem *p, const clattn_device_info *dev,
                          const size_t *values)
{
    (void)p;
    (void)dev;
    (void)values;
    return NULL;
}

static size_t private_bytes(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return p->normal.dim_v * sizeof(cl_float);
}

static struct ca_ndrange ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_any_groups(p->normal.batch * p->normal.heads * p->normal.seq_q);
}

static const struct ca_family family = {
    CA_FAMILY("naive"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_naive,
    CA_STAGES({"naive", CA_FUSED_ARGUMENTS, ndrange}),
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .private_bytes = private_bytes,
    .preference = ca_forced_preference,
};

const struct ca_family *const ca_naive[] = {&family, NULL};
