/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a unit of backward_cpu (listed in src/families/backward_cpu/backward_cpu.cl), for its C file:
 *
 *   BACKWARD_STAGES     for struct ca_family
 *   workspace_bytes()   likewise
 *   suggested_split()   the SPLIT_K that gives each compute unit some groups
 *
 * Before including this: families/expand.h, of its tunables, backward_cpu_sizes.h, and SIMD_WIDTH and DQ_ROWS where
 * these are no tunables. */
#include "base/sizes.h"
#include "cl/score/mark_sizes.h"
#include "families/function_sums.h"
#include "families/block_bits.h"
#include "families/pair_marks.h"
#include "problem/function.h"

static struct ca_ndrange marks_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_pair_marks_ndrange(p, BACKWARD_MARK_QUERIES);
}

static struct ca_ndrange rows_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_single_items(ca_divide_up(p->normal.seq_q, values[BLOCK_M_INDEX]), p->normal.heads,
                           p->normal.batch);
}

/* The arrays of sums of dfunction, of which each work-item has one, and their elements. */
static size_t function_items(const struct ca_problem *p, const size_t *values)
{
    const size_t items = values[SPLIT_K_INDEX] * p->normal.batch * p->normal.kv_heads;

    return FUNCTION_SUMS(items, ca_function_gradients(&p->normal));
}

static size_t function_elements(const struct ca_problem *p, const size_t *values)
{
    return p->normal.dfunction ? function_items(p, values) * ca_function_gradients(&p->normal) : 0;
}

static struct ca_ndrange function_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_any_groups(p->normal.dfunction ? ca_smaller(ca_function_gradients(&p->normal), 4096)
                                             : 0);
}

static struct ca_ndrange lanes_ndrange(const struct ca_problem *p, const size_t *values)
{
    if (p->normal.dfunction)
        return ca_single_items(function_items(p, values), 1, 1);
    return ca_single_items(values[SPLIT_K_INDEX], p->normal.kv_heads, p->normal.batch);
}

/* The stage also runs if there are no pairs, since it then writes sums of 0. */
static struct ca_ndrange bias_ndrange(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    const size_t *stride = p->normal.bias_layout.stride;
    const size_t heads = stride[1] == 0 ? 1 : p->normal.heads,
                 batch = stride[0] == 0 ? 1 : p->normal.batch;

    if (!p->normal.dbias)
        return ca_single_items(0, 0, 0);
    return ca_single_items(stride[3] == 0 ? 1 : ca_divide_up(p->normal.seq_kv, BLOCK_N),
                           stride[2] == 0 ? 1 : ca_divide_up(p->normal.seq_q, BLOCK_M),
                           heads * batch);
}

static struct ca_ndrange heads_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_single_items(p->normal.dslopes || p->normal.dsinks ? p->normal.heads : 0, 1, 1);
}

static struct ca_ndrange sum_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_single_items(p->normal.seq_q, p->normal.heads, p->normal.batch);
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    const size_t heads = p->normal.batch * p->normal.heads;
    const size_t sums = heads * (p->normal.seq_q + ROWS_AFTER) * ROW_QK;
    const size_t stats = ca_round_up(ROW_STATISTICS * heads * p->normal.seq_q, 16);

    return (stats + SPLIT_K * (sums + heads) + function_elements(p, values)) * sizeof(cl_float) +
           ca_block_bits_bytes(p) + /* these bytes or the next are 0 */
           ca_pair_marks_bytes(p, BACKWARD_MARK_QUERIES, BLOCK_N);
}

static size_t suggested_split(const struct ca_problem *p, const clattn_device_info *dev)
{
    size_t split = 1;

    while (split < 32 &&
           split * p->normal.kv_heads * p->normal.batch < (size_t)4 * dev->compute_units)
        split *= 2;
    return split;
}

#define BACKWARD_STAGES                                                                            \
    CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),                                                  \
        {"backward_rows", CA_BACKWARD_ROWS_ARGUMENTS, rows_ndrange},                               \
        {"backward_cpu", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DK) | CA_BIT(CA_DV), lanes_ndrange},    \
        {"backward_bias", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DBIAS) | CA_READ_ONLY, bias_ndrange},  \
        {"backward_heads",                                                                         \
         CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_DSLOPES) | CA_BIT(CA_DSINKS) | CA_STARTS |  \
             CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,                                                  \
         heads_ndrange},                                                                           \
        {"backward_function",                                                                      \
         CA_FUNCTION_BITS | CA_BIT(CA_DFUNCTION) | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,            \
         function_ndrange},                                                                        \
    {                                                                                              \
        "backward_sum", CA_BIT(CA_DQ) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,           \
            sum_ndrange                                                                            \
    }
