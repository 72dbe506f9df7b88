/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of fused forward attention, for the C file of one:
 *
 *   FUSED_STAGES(kernel)   for struct ca_family
 *   workspace_bytes()      likewise
 *
 * Before including this: block_m(values), the queries of a block, and the tunable BLOCK_N. Where a
 * work-group owns a block, work_items(values), those of a group; where a work-item does (on CPUs),
 * QUERIES_PER_ITEM(values), those of its blocks together, and the tunable BALANCE_CAUSAL. */
#include "families/block_bits.h"
#include "families/block_sizes.h"
#include "families/pair_marks.h"

static struct ca_ndrange fused_ndrange(const clattn_problem *p, const size_t *values)
{
#ifdef QUERIES_PER_ITEM
    const size_t chunks = ca_query_chunks(p, QUERIES_PER_ITEM(values));

    return ca_single_items(values[BALANCE_CAUSAL_INDEX] ? ca_divide_up(chunks, 2) : chunks,
                           p->heads, p->batch);
#else
    return ca_groups(ca_divide_up(p->seq_q, block_m(values)) * p->heads * p->batch,
                     work_items(values));
#endif
}

static struct ca_ndrange marks_ndrange(const clattn_problem *p, const size_t *values)
{
#ifdef QUERIES_PER_ITEM
    return ca_pair_marks_ndrange(p, block_m(values));
#else
    return ca_pair_marks_group_ndrange(p, block_m(values), values[BLOCK_N_INDEX],
                                       work_items(values));
#endif
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values)
{
    return ca_block_bits_bytes(p) + /* these bytes or the next are 0 */
           ca_pair_marks_bytes(p, block_m(values), values[BLOCK_N_INDEX]);
}

/* The list, by what the last is called in the .cl file. */
#define FUSED_STAGES(kernel)                                                                       \
    CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),                                                  \
    {                                                                                              \
        kernel, CA_FUSED_ARGUMENTS | CA_BLOCK_BITS | CA_OF_MARKS, fused_ndrange                    \
    }
