/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of fused forward attention, for the C file of one:
 *
 *   FUSED_STAGES(kernel)   for struct ca_family
 *   workspace_bytes()      likewise
 *
 * Before including this: FIRST_IN_WORKSPACE(p), the bytes of what precedes marks in the workspace, if there is such;
 * block_m(values), the queries of a block, and the tunable BLOCK_N. Where a
 * work-group owns a block, work_items(values), those of a group; where a work-item does (on CPUs),
 * QUERIES_PER_ITEM(values), those of its blocks together, and the tunable BALANCE_CAUSAL. */
#include "cl/score/mark_sizes.h"
#include "families/block_bits.h"
#include "families/block_sizes.h"
#include "families/pair_marks.h"

#ifdef PARTS_OF_F32
#include "families/f32_parts.h"

static size_t q_lines(const struct ca_problem *p)
{
    return (p->normal.total_q ? p->normal.total_q : p->normal.batch * p->normal.seq_q) *
           p->normal.heads;
}

static size_t kv_lines(const struct ca_problem *p)
{
    return (p->normal.total_kv ? p->normal.total_kv : p->normal.batch * p->normal.seq_kv) *
           p->normal.kv_heads;
}

static struct ca_ndrange parts_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return p->normal.dtype == CLATTN_F32
               ? ca_f32_parts_ndrange(ca_larger(q_lines(p), kv_lines(p)),
                                      ca_larger(p->normal.dim_qk, p->normal.dim_v), 3)
               : ca_groups(0, 1);
}

/* The sizes are those of cl/mma/attention_parts.h. */
static size_t parts_bytes(const struct ca_problem *p)
{
    return p->normal.dtype != CLATTN_F32
               ? 0
               : PARTS_ALIGNMENT + PARTS_BYTES(q_lines(p), PART_LINE(p->normal.dim_qk)) +
                     PARTS_BYTES(kv_lines(p), PART_LINE(p->normal.dim_qk)) +
                     PARTS_BYTES(kv_lines(p), PART_LINE(p->normal.dim_v));
}

#ifndef FIRST_IN_WORKSPACE
#define FIRST_IN_WORKSPACE parts_bytes
#endif
#endif

static struct ca_ndrange fused_ndrange(const struct ca_problem *p, const size_t *values)
{
#ifdef QUERIES_PER_ITEM
    const size_t chunks = ca_query_chunks(p, QUERIES_PER_ITEM(values));

    return ca_single_items(values[BALANCE_CAUSAL_INDEX] ? ca_divide_up(chunks, 2) : chunks,
                           p->normal.heads, p->normal.batch);
#else
    return ca_groups(ca_divide_up(p->normal.seq_q, block_m(values)) * p->normal.heads *
                         p->normal.batch,
                     work_items(values));
#endif
}

/* The queries of a mark: of half a block where an item has vectors of them (cl/score/query_tile.h). */
static size_t mark_m(const struct ca_problem *p, const size_t *values)
{
#ifdef MARKS_HALVES
    if (p->normal.mask_function && values[BLOCK_VECTORS_INDEX] % 2 == 0)
        return block_m(values) / 2;
#endif
    (void)p;
    return block_m(values);
}

/* The keys of a mark. */
static size_t mark_n(const struct ca_problem *p, const size_t *values)
{
#ifdef QUERIES_PER_ITEM
    if (p->normal.mask_function)
        return FUNCTION_MARK_KEYS;
#endif
    (void)p;
    return values[BLOCK_N_INDEX];
}

static struct ca_ndrange marks_ndrange(const struct ca_problem *p, const size_t *values)
{
#ifdef QUERIES_PER_ITEM
    return ca_pair_marks_ndrange(p, mark_m(p, values));
#else
    return ca_pair_marks_group_ndrange(p, mark_m(p, values), mark_n(p, values), work_items(values));
#endif
}

static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    return
#ifdef FIRST_IN_WORKSPACE
        FIRST_IN_WORKSPACE(p) +
#endif
        ca_block_bits_bytes(p) + /* these bytes or the next are 0 */
        ca_pair_marks_bytes(p, mark_m(p, values), mark_n(p, values));
}

/* The list of stages, with the name of the last kernel in the .cl file. */
#define FUSED_STAGES(kernel)                                                                       \
    CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),                                                  \
    {                                                                                              \
        kernel, CA_FUSED_ARGUMENTS | CA_BLOCK_BITS | CA_OF_MARKS | CA_OF_MEANS, fused_ndrange      \
    }

/* The same with PARTS_OF_F32; flags: what else decides whether the kernel reads the workspace. */
#define FUSED_STAGES_OF_PARTS(kernel, flags)                                                       \
    CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),                                                  \
        {"attention_parts",                                                                        \
         CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_V) | CA_BIT(CA_WORKSPACE) | CA_OF_PARTS,          \
         parts_ndrange},                                                                           \
    {                                                                                              \
        kernel, CA_FUSED_ARGUMENTS | CA_BLOCK_BITS | CA_OF_MARKS | CA_OF_PARTS | (flags),          \
            fused_ndrange                                                                          \
    }
