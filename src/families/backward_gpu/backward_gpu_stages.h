/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of gradients for GPUs (listed in
 * src/families/backward_gpu/backward_gpu_item.cl), for its C file:
 *
 *   BACKWARD_STAGES     for struct ca_family
 *   workspace_bytes()   likewise
 *
 * Before including this: blocks_of(values), the struct ca_backward_blocks of tunables. */
#include "families/backward_gpu/backward_gpu.h"

static struct ca_ndrange marks_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_backward_marks_ndrange(p, blocks_of(values));
}

static struct ca_ndrange rows_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_backward_rows_ndrange(p, blocks_of(values));
}

static struct ca_ndrange keys_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_backward_keys_ndrange(p, blocks_of(values));
}

static struct ca_ndrange queries_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_backward_queries_ndrange(p, blocks_of(values));
}

static struct ca_ndrange bias_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_backward_bias_ndrange(p, blocks_of(values));
}

static struct ca_ndrange sums_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_backward_sums_ndrange(p, blocks_of(values));
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values)
{
    return ca_backward_workspace_bytes(p, blocks_of(values));
}

/* The list, by what the stages are called in the .cl file. */
#define BACKWARD_STAGES                                                                            \
    CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),                                                  \
        {"backward_rows", CA_BACKWARD_ROWS_ARGUMENTS, rows_ndrange},                               \
        {"backward_keys", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DK) | CA_BIT(CA_DV), keys_ndrange},    \
        {"backward_queries", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DQ), queries_ndrange},              \
        {"backward_bias", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DBIAS) | CA_READ_ONLY, bias_ndrange},  \
    {                                                                                              \
        "backward_sums",                                                                           \
            CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_DBIAS) | CA_BIT(CA_DSLOPES) |            \
                CA_BIT(CA_DSINKS) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,               \
            sums_ndrange                                                                           \
    }
