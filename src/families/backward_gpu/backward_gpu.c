/* SPDX-License-Identifier: Apache-2.0 */
#include "families/backward_gpu/backward_gpu.h"
#include "base/sizes.h"
#include "families/backward_gpu/backward_gpu_sizes.h"

struct ca_ndrange ca_backward_rows_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks)
{
    const size_t THREADS = blocks.items;

    return (struct ca_ndrange){
        {ca_round_up(p->seq_q * ROW_LANES, blocks.items), p->heads, p->batch},
        {blocks.items, 1, 1}};
}

struct ca_ndrange ca_backward_keys_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks)
{
    return ca_groups(ca_divide_up(p->seq_kv, blocks.owned) * p->kv_heads * p->batch, blocks.items);
}

struct ca_ndrange ca_backward_queries_ndrange(const clattn_problem *p,
                                              struct ca_backward_blocks blocks)
{
    return ca_groups(ca_divide_up(p->seq_q, blocks.owned) * p->heads * p->batch, blocks.items);
}

/* The part of dbias's sums that stays within rows of the pairs: see Workspace in the kernel. */
static int sums_keys(const clattn_problem *p)
{
    return p->dbias && p->bias_layout.stride[3] == 0;
}

static int sums_queries(const clattn_problem *p)
{
    return p->dbias && p->bias_layout.stride[2] == 0 && !sums_keys(p);
}

/* Batches and heads of the bias. */
static size_t bias_planes(const clattn_problem *p)
{
    const size_t *stride = p->bias_layout.stride;

    return (stride[0] == 0 ? 1 : p->batch) * (stride[1] == 0 ? 1 : p->heads);
}

struct ca_ndrange ca_backward_bias_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks)
{
    const size_t tiles =
        ca_divide_up(p->seq_kv, blocks.streamed) * ca_divide_up(p->seq_q, blocks.owned);

    return ca_groups(p->dbias && !sums_keys(p) && !sums_queries(p) ? tiles * bias_planes(p) : 0,
                     blocks.items);
}

struct ca_ndrange ca_backward_sums_ndrange(const clattn_problem *p,
                                           struct ca_backward_blocks blocks)
{
    const size_t head_sums = (p->dslopes ? p->heads : 0) + (p->dsinks ? p->heads : 0);
    size_t elements = 0;

    if (sums_keys(p))
        elements = bias_planes(p) * (p->bias_layout.stride[2] == 0 ? 1 : p->seq_q);
    if (sums_queries(p))
        elements = bias_planes(p) * p->seq_kv;
    return ca_groups(head_sums + elements, blocks.items);
}

static size_t mark_rows(struct ca_backward_blocks blocks)
{
    const size_t BLOCK_OWNED = blocks.owned, BLOCK_STREAMED = blocks.streamed;

    return MARK_M;
}

struct ca_ndrange ca_backward_marks_ndrange(const clattn_problem *p,
                                            struct ca_backward_blocks blocks)
{
    return ca_pair_marks_group_ndrange(p, mark_rows(blocks), mark_rows(blocks), blocks.items);
}

size_t ca_backward_workspace_bytes(const clattn_problem *p, struct ca_backward_blocks blocks)
{
    const size_t rows = p->batch * p->heads * p->seq_q, keys = p->batch * p->heads * p->seq_kv;

    return (ROW_STATISTICS * rows + (p->dslopes ? rows : 0) + (sums_keys(p) ? rows : 0) +
            (sums_queries(p) ? keys : 0)) *
               sizeof(cl_float) +
           ca_block_bits_bytes(p) + /* one of them is 0 */
           ca_pair_marks_bytes(p, mark_rows(blocks), mark_rows(blocks));
}
