/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of all kernels of indexers: which keys a query sees, where they lie, and scores as integers of the same
 * order. The sizes of lists come before it (families/indexer_sizes.h).
 *
 * Defined by the host: DTYPE, HEADS, DIM_QK, PAGE_SIZE, UNIT_Q, UNIT_K (1: the innermost stride is 1), CAUSAL,
 * DIAGONAL_FOLLOWS_LENGTHS, HAS_Q_LENGTHS, HAS_KV_LENGTHS, HAS_TOTAL_Q, HAS_TOTAL_KV, HAS_SCORES. */
#pragma once
#include "common/indexer_arguments.h"
#include "common/kernel.h"

/* The tensors that the kernels read and write (src/program/program_parameters.h). */
struct indexer_arguments {
    const struct indexer_shape *shape;
    const struct indexer_offsets *at;
    ARGUMENTS_MEMBERS
};

/* ---- sequences ------------------------------------------------------------------------------ */

/* Batch b: the first of its rows in q and the lists, and how many there are, of which `queries` are in use; the same of
 * keys. */
struct sequence {
    long b, first_row, rows, queries, first_key, keys, diagonal;
};

/* Finds the first row of sequence b, among `total` rows, and its number of rows. */
INLINE void find_rows(const __global int *starts, const long b, const long total,
                      const long longest, long *first, long *rows)
{
    *first = clamp((long)starts[b], 0L, total);
    *rows = clamp((long)starts[b + 1] - *first, 0L, min(longest, total - *first));
}

INLINE struct sequence sequence_of(const struct indexer_arguments *args, const long b)
{
    const struct indexer_shape *shape = args->shape;
    struct sequence s = {b, b * shape->seq_q, shape->seq_q,   shape->seq_q,
                         0, shape->seq_kv,    shape->diagonal};

#if HAS_TOTAL_Q
    find_rows(args->q_starts, b, shape->total_q, shape->seq_q, &s.first_row, &s.rows);
    s.queries = s.rows;
#endif
#if HAS_TOTAL_KV
    find_rows(args->kv_starts, b, shape->total_kv, shape->seq_kv, &s.first_key, &s.keys);
#endif
#if HAS_Q_LENGTHS
    s.queries = clamp((long)args->q_lengths[b], 0L, s.queries);
#endif
#if HAS_KV_LENGTHS
    s.keys = clamp((long)args->kv_lengths[b], 0L, s.keys);
#endif
    if (DIAGONAL_FOLLOWS_LENGTHS)
        s.diagonal = s.keys - s.queries;
    return s;
}

/* The number of keys that query i sees, if all of them have a page: it sees the first ones. */
INLINE long seen_keys(const struct sequence *s, const long i)
{
    if (i >= s->queries)
        return 0;
    return CAUSAL ? clamp(i + s->diagonal + 1, 0L, s->keys) : s->keys;
}

/* ---- places --------------------------------------------------------------------------------- */

#define Q_STEP (UNIT_Q ? 1 : args->shape->q_stride[3])
#define K_STEP (UNIT_K ? 1 : args->shape->k_stride[3])

/* The places of query i of the sequence in q and w, of head 0. */
INLINE long query_place(const struct indexer_arguments *args, const struct sequence *s,
                        const long i)
{
    const long *stride = args->shape->q_stride;

    return HAS_TOTAL_Q ? (s->first_row + i) * stride[2] : s->b * stride[0] + i * stride[2];
}

INLINE long weight_place(const struct indexer_arguments *args, const struct sequence *s,
                         const long i)
{
    const long *stride = args->shape->w_stride;

    return HAS_TOTAL_Q ? (s->first_row + i) * stride[2] : s->b * stride[0] + i * stride[2];
}

/* The place of key j in k; -1 if the page table hides it. */
INLINE long key_place(const struct indexer_arguments *args, const struct sequence *s, const long j)
{
    const long *stride = args->shape->k_stride;
#if PAGE_SIZE
    const long columns = (args->shape->seq_kv + PAGE_SIZE - 1) / PAGE_SIZE;
    const int page = args->page_table[s->b * columns + j / PAGE_SIZE];

    return page >= 0 && page < args->shape->pages ? page * stride[0] + j % PAGE_SIZE * stride[2]
                                                  : -1L;
#else
    return HAS_TOTAL_KV ? (s->first_key + j) * stride[2] : s->b * stride[0] + j * stride[2];
#endif
}

/* ---- scores as integers --------------------------------------------------------------------- */

#define NO_SCORE INT_MIN /* below the integers of all scores */

/* A positive float's bits rise with it, a negative one's fall. This is its own inverse. */
INLINE int flip_if_negative(const int bits)
{
    return bits ^ (bits >> 31 & INT_MAX);
}

/* The integer of a score: equal for 0 and -0, and the largest for a NaN. */
INLINE int score_rank(const float score)
{
    return score != score ? INT_MAX : flip_if_negative(as_int(score + 0.0f));
}

INLINE float score_of_rank(const int rank)
{
    return as_float(flip_if_negative(rank));
}

/* ---- parts of lists ------------------------------------------------------------------------- */

/* The ranks of the parts of row i's list, behind which are their numbers; families/indexer_sizes.h has where they lie. */
#if SPLITS > 1
INLINE __global int *parts_of(const struct indexer_arguments *args, const struct sequence *s,
                              const long i)
{
    const long topk = args->shape->topk, seq_kv = args->shape->seq_kv, row = s->first_row + i;

    return (__global int *)args->workspace + GROUPS_ROOM(topk, seq_kv) +
           row * 2 * PARTS_ROOM(topk, seq_kv);
}
#endif

/* ---- lists ---------------------------------------------------------------------------------- */

/* Writes entries `own`, `own` + `items` and so on of the list of row i of the sequence: `count` keys, and none after
 * them. */
INLINE void write_list(const struct indexer_arguments *args, const struct sequence *s, const long i,
                       const __global int *ranks, const __global int *numbers, const long count,
                       const int own, const int items)
{
    const long topk = args->shape->topk, first = (s->first_row + i) * topk;

    for (long n = own; n < topk; n += items)
        args->topk_indices[first + n] = n < count ? numbers[n] : -1;
#if HAS_SCORES
    for (long n = own; n < topk; n += items)
        args->scores[first + n] = n < count ? score_of_rank(ranks[n]) : -INFINITY;
#endif
}

/* Writes a query's candidates, which are in order, by the same items: its list, or part number `split` of it. */
INLINE void write_candidates(const struct indexer_arguments *args, const struct sequence *s,
                             const long i, const int split, const __global int *ranks,
                             const __global int *numbers, const long count, const int own,
                             const int items)
{
#if SPLITS > 1
    const long topk = args->shape->topk, seq_kv = args->shape->seq_kv;
    const long listed = LISTED(topk, seq_kv), room = PARTS_ROOM(topk, seq_kv);
    __global int *part = parts_of(args, s, i) + split * listed;

    for (long n = own; n < listed; n += items) {
        part[n] = n < count ? ranks[n] : NO_SCORE;
        part[room + n] = n < count ? numbers[n] : -1;
    }
#else
    write_list(args, s, i, ranks, numbers, count, own, items);
#endif
}
