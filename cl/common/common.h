/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by every attention kernel: argument lists, steps, and which keys a query may see.
 *
 * Defined by the host for the problem (src/program/program_options.c), all of them always (projections: some of
 * them, cl/common/projection.h):
 *   DTYPE, BIAS_DTYPE       cl/common/storage.h
 *   K_CACHE, V_CACHE        0 of K_DTYPE, of V_DTYPE; 1 q8_0, 2 q4_0 (cl/common/quantized.h)
 *   K_DTYPE, V_DTYPE        as DTYPE, which is that of q; DTYPE where k, v is quantized
 *   PAGE_SIZE               keys in a page, or 0 (cl/common/key_rows.h)
 *   DIM_QK, DIM_V
 *   UNIT_Q UNIT_K UNIT_V UNIT_O    1: the innermost stride is 1
 *   HAS_SOFTCAP HAS_BIAS HAS_MASK HAS_MASK_KEYS HAS_ALIBI HAS_ALIBI_SYMMETRIC HAS_SINKS HAS_WINDOW_LEFT HAS_WINDOW_RIGHT
 *   HAS_Q_LENGTHS HAS_KV_LENGTHS HAS_LSE HAS_BLOCKS   0 or 1
 *   HAS_SCORE_FUNCTION HAS_MASK_FUNCTION  0 or 1 (cl/score/function.h)
 *   BLOCK_Q BLOCK_KV        with HAS_BLOCKS: queries and keys in a block (cl/score/blocks.h)
 *   DIAGONAL_FOLLOWS_LENGTHS  1: d = keys in use - queries in use of the batch
 *   HAS_TOPK HAS_TOPK_HEADS each query has a list of the keys that it may see; each kv head has its own (families/chosen_keys)
 *   HAS_DROPOUT             0 or 1
 *   HAS_INVARIANT           1: a query's bits depend on its own keys alone ("Batch invariance", clattn/problem.h)
 *   HAS_TOTAL_Q HAS_TOTAL_KV  sequences follow each other in one buffer (cl/common/sequence.h)
 *   SCORES                  0 none, 1 raw, 2 after softcap, 3 after bias and masks, 4 weights
 * and for the family every tunable of its .def file.
 */
#pragma once
#include "common/arguments.h"
#include "common/kernel.h"

/* ---- the arguments of a kernel --------------------------------------------------------------- */

/* The arguments of a kernel: its shape, and the tensors of this call that its program has, each
 * from its first element on, under the names of src/problem/tensors.def. The host writes the lists
 * before the source (src/program/program_parameters.h): parameters of a kernel,
 * PARAMETERS_<kernel>, members here, and initial values, ARGUMENTS_<kernel>. */
struct arguments {
    const struct attention_shape *shape;
    const struct attention_call *call;
    ARGUMENTS_MEMBERS
};

/* The step along the innermost dimension; a constant 1 where it is. */
INLINE long q_step(const struct arguments *args)
{
    return UNIT_Q ? 1 : args->shape->q_stride[3];
}

INLINE long k_step(const struct arguments *args)
{
    return UNIT_K ? 1 : args->shape->k_stride[3];
}

INLINE long v_step(const struct arguments *args)
{
    return UNIT_V ? 1 : args->shape->v_stride[3];
}

INLINE long o_step(const struct arguments *args)
{
    return UNIT_O ? 1 : args->shape->o_stride[3];
}

/* ---- what a row may see --------------------------------------------------------------------- */

/* 1 if a score may be -infinity by what neither block lists nor marks of tiles tell. */
enum { HIDES_BY_SCORE = HAS_BIAS || HAS_SCORE_FUNCTION };
/* 1 if pairs may be masked in any tile, not by windows and lengths alone. */
#define HIDES_ANYWHERE                                                                             \
    (HAS_BIAS || HAS_MASK || HAS_BLOCKS || HAS_SCORE_FUNCTION || HAS_MASK_FUNCTION)

/* One batch's extent and diagonal. */
struct extent {
    long queries, keys; /* the numbers of queries and keys in use, at most seq_q and seq_kv */
    long diagonal;
    long mask_begin; /* the key of the mask's first column; may be negative */
};

static inline struct extent extent_of(const struct arguments *args, const long b)
{
    struct extent e;
    e.queries = args->shape->seq_q;
    e.keys = args->shape->seq_kv;
    if (HAS_Q_LENGTHS)
        e.queries = clamp((long)args->q_lengths[b], 0L, args->shape->seq_q);
    if (HAS_KV_LENGTHS)
        e.keys = clamp((long)args->kv_lengths[b], 0L, args->shape->seq_kv);
    e.mask_begin = HAS_MASK_KEYS ? e.keys - args->shape->mask_keys : 0;
    e.diagonal = DIAGONAL_FOLLOWS_LENGTHS ? e.keys - e.queries : args->shape->diagonal;
    return e;
}

/* The number of head h of batch b among all batches' heads, for dropout. */
INLINE uint dropout_head(const struct arguments *args, const long b, const long h)
{
    return (uint)(args->call->dropout_bh + b * args->call->dropout_heads + h);
}

/* Keys [first_key, end_key) hold all that query i may see by lengths, window and causality; bias
 * and mask may hide more of them. end_key <= first_key if there are none. */
static inline long first_key(const struct arguments *args, const struct extent e, const long i)
{
    return HAS_WINDOW_LEFT ? max(i + e.diagonal - args->shape->window_left, 0L) : 0;
}

static inline long end_key(const struct arguments *args, const struct extent e, const long i)
{
    if (i >= e.queries)
        return 0;
    return HAS_WINDOW_RIGHT ? clamp(i + e.diagonal + args->shape->window_right + 1, 0L, e.keys)
                            : e.keys;
}

/* Queries [first_query, end_query) include all that may see one of the keys j .. j + keys - 1
 * (which must be in use) by lengths, window and causality. */
static inline long first_query(const struct arguments *args, const struct extent e, const long j)
{
    return HAS_WINDOW_RIGHT ? clamp(j - e.diagonal - args->shape->window_right, 0L, e.queries) : 0;
}

static inline long end_query(const struct arguments *args, const struct extent e, const long j,
                             const int keys)
{
    if (keys == 0)
        return 0;
    return HAS_WINDOW_LEFT ? clamp(j + keys - e.diagonal + args->shape->window_left, 0L, e.queries)
                           : e.queries;
}
