/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a unit of backward_gpu (listed in src/families/backward_gpu/backward_gpu_item.cl), for its C file:
 *
 *   BACKWARD_STAGES     for struct ca_family; behind BACKWARD_PARTS, of units that multiply f32 in parts
 *   workspace_bytes()   likewise
 *
 * Before including this: block_owned(values), the queries of a group, owned_keys(values), its keys, work_items(values), those
 * of a group, the tunable BLOCK_STREAMED, the others in a tile, and operand_parts(p), the parts of an element. */
#include "base/sizes.h"
#include "families/backward_gpu/backward_gpu_sizes.h"
#include "families/block_bits.h"
#include "families/function_sums.h"
#include "families/pair_marks.h"
#include "problem/function.h"

static size_t mark_rows(const size_t *values)
{
    return MARK_OF(owned_keys(values), values[BLOCK_STREAMED_INDEX]);
}

static struct ca_ndrange marks_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_pair_marks_group_ndrange(p, mark_rows(values), mark_rows(values), work_items(values));
}

static struct ca_ndrange rows_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t items = work_items(values);

    return (struct ca_ndrange){{ca_round_up(p->normal.seq_q * ROW_LANES_OF(items), items),
                                p->normal.heads, p->normal.batch},
                               {items, 1, 1}};
}

static struct ca_ndrange keys_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_groups(ca_divide_up(p->normal.seq_kv, owned_keys(values)) * p->normal.kv_heads *
                         p->normal.batch,
                     work_items(values));
}

static struct ca_ndrange queries_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_groups(ca_divide_up(p->normal.seq_q, block_owned(values)) * p->normal.heads *
                         p->normal.batch,
                     work_items(values));
}

/* The size of dbias's sums that broadcast within rows of pairs: see Workspace in the kernel. */
static int sums_keys(const struct ca_problem *p)
{
    return p->normal.dbias && p->normal.bias_layout.stride[3] == 0;
}

static int sums_queries(const struct ca_problem *p)
{
    return p->normal.dbias && p->normal.bias_layout.stride[2] == 0 && !sums_keys(p);
}

/* The batches and heads of the bias. */
static size_t bias_planes(const struct ca_problem *p)
{
    const size_t *stride = p->normal.bias_layout.stride;

    return (stride[0] == 0 ? 1 : p->normal.batch) * (stride[1] == 0 ? 1 : p->normal.heads);
}

static struct ca_ndrange bias_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t tiles = ca_divide_up(p->normal.seq_kv, values[BLOCK_STREAMED_INDEX]) *
                         ca_divide_up(p->normal.seq_q, block_owned(values));

    return ca_groups(p->normal.dbias && !sums_keys(p) && !sums_queries(p) ? tiles * bias_planes(p)
                                                                          : 0,
                     work_items(values));
}

static struct ca_ndrange sums_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t head_sums =
        (p->normal.dslopes ? p->normal.heads : 0) + (p->normal.dsinks ? p->normal.heads : 0);
    size_t elements = 0;

    if (sums_keys(p))
        elements = bias_planes(p) * (p->normal.bias_layout.stride[2] == 0 ? 1 : p->normal.seq_q);
    if (sums_queries(p))
        elements = bias_planes(p) * p->normal.seq_kv;
    return ca_groups(head_sums + elements, work_items(values));
}

/* The groups that share the pairs for dfunction, each with an array of sums. */
static size_t function_groups(const struct ca_problem *p)
{
    const size_t blocks =
        p->normal.batch * p->normal.heads * ca_divide_up(p->normal.seq_q, LOAD_ROWS);

    return FUNCTION_SUMS(FUNCTION_GROUPS(blocks), ca_function_gradients(&p->normal));
}

static struct ca_ndrange loads_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_groups(p->normal.dfunction ? function_groups(p) : 0, work_items(values));
}

static struct ca_ndrange function_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_any_groups(
        p->normal.dfunction ? ca_smaller(ca_function_gradients(&p->normal), 1 << 16) : 0);
}

/* The words of the parts of q, do, k and v. */
static size_t parts_words(const struct ca_problem *p)
{
    const size_t DIM_QK = p->normal.dim_qk, DIM_V = p->normal.dim_v;
    const size_t rows = p->normal.batch *
                        (p->normal.heads * p->normal.seq_q + p->normal.kv_heads * p->normal.seq_kv);

    return operand_parts(p) == 1 ? 0 : PARTS_WORDS(rows);
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    const size_t rows = p->normal.batch * p->normal.heads * p->normal.seq_q,
                 keys = p->normal.batch * p->normal.heads * p->normal.seq_kv;
    const size_t words =
        ROW_STATISTICS * rows + (p->normal.dslopes ? rows : 0) + (sums_keys(p) ? rows : 0) +
        (sums_queries(p) ? keys : 0) +
        (p->normal.dfunction ? function_groups(p) * ca_function_gradients(&p->normal) : 0);

    return (words + parts_words(p)) * sizeof(cl_float) +
           ca_block_bits_bytes(p) + /* these bytes or the next are 0 */
           ca_pair_marks_bytes(p, mark_rows(values), mark_rows(values));
}

/* The list of stages, with the names of the kernels in the .cl file. */
#define BACKWARD_STAGES                                                                            \
    CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),                                                  \
        {"backward_rows", CA_BACKWARD_ROWS_ARGUMENTS, rows_ndrange},                               \
        {"backward_keys", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DK) | CA_BIT(CA_DV), keys_ndrange},    \
        {"backward_queries", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DQ), queries_ndrange},              \
        {"backward_bias", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DBIAS) | CA_READ_ONLY, bias_ndrange},  \
        {"backward_loads", CA_BACKWARD_ARGUMENTS, loads_ndrange},                                  \
        {"backward_function",                                                                      \
         CA_FUNCTION_BITS | CA_BIT(CA_DFUNCTION) | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,            \
         function_ndrange},                                                                        \
    {                                                                                              \
        "backward_sums",                                                                           \
            CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_DBIAS) | CA_BIT(CA_DSLOPES) |            \
                CA_BIT(CA_DSINKS) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,               \
            sums_ndrange                                                                           \
    }
