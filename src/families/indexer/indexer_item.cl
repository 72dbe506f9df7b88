/* SPDX-License-Identifier: Apache-2.0 */
/* indexer_item: each query's keys with the largest scores, for GPUs. Formula: "Indexer" in clattn/problem.h.
 *
 * Stages     indexer_choose  GROUPS groups of ITEMS items: a group takes every GROUPS-th task, a query and one of SPLITS
 *                            parts of the keys that it sees
 *            indexer_merge   with SPLITS > 1: seq_q x batch groups: the list of a query, from its parts
 * Scores     An item has KEYS keys. A tile of q, HEAD_STEP heads and DIM_STEP columns, lies in local memory; an item
 *            multiplies it with its keys in registers. Sums over heads are in the order of the heads.
 * Selection  Scores whose rank is above the query's threshold become candidates in the order of their keys: an item's place
 *            follows from a bit of each item before it. When there are many, those that cannot be among the largest leave,
 *            in the same order; the smallest rank that remains is found by bisection. No place is drawn by an atomic
 *            counter, so that lists are the same on every run.
 * Barriers   All items of a group reach every barrier: what loops depend on is the same in each.
 * Workspace  families/indexer/indexer_sizes.h
 * Tunables   src/families/indexer/indexer_item.def, all defined by the host; no fallbacks here. */
#if !defined(ITEMS) || !defined(KEYS) || !defined(SPLITS) || !defined(GROUPS)
#error "indexer_item.cl must be built with all of its tunables defined"
#endif
#include "families/indexer/indexer_item_sizes.h"
#include "common/indexer.h"
#include "gpu/local_barrier.h"

/* What the items of a group share. */
struct area {
    float q[HEAD_STEP][DIM_STEP];
    float w[HEAD_STEP];
    int above[WORDS], equal[WORDS]; /* a bit of each item */
    int sums[ITEMS];
};

/* Candidates lie in global memory, tiles in local memory. */
#define GROUP_BARRIER()                                                                            \
    do {                                                                                           \
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);                                       \
        STORE_APART();                                                                             \
    } while (0)

INLINE int own_item(void)
{
    return (int)get_local_id(0);
}

/* ---- places among the items ------------------------------------------------------------------- */

/* How many items have a bit: those before this one, and all. */
struct counted {
    int before, all;
};

INLINE struct counted count_items(const __local int *words)
{
    const int item = own_item();
    struct counted c = {0, 0};

    for (int n = 0; n < WORDS; n++) {
        const uint word = (uint)words[n];
        const uint below = n < item / 32    ? word
                           : n == item / 32 ? word & ((1u << item % 32) - 1)
                                            : 0;
        c.before += (int)popcount(below);
        c.all += (int)popcount(word);
    }
    return c;
}

/* Sets the bits of the items for which `above`, or `equal`, holds. Barriers come before and after. */
INLINE void mark_items(__local struct area *area, const bool above, const bool equal)
{
    const int item = own_item();

    for (int n = item; n < WORDS; n += ITEMS)
        area->above[n] = area->equal[n] = 0;
    GROUP_BARRIER();
    if (above)
        atomic_or((volatile __local int *)&area->above[item / 32], (int)(1u << item % 32));
    if (equal)
        atomic_or((volatile __local int *)&area->equal[item / 32], (int)(1u << item % 32));
    GROUP_BARRIER();
}

/* ---- selection -------------------------------------------------------------------------------- */

/* Counts ranks that are at least `least`; the same in all items. */
INLINE long count_ranks_from(__local struct area *area, const __global int *ranks, const long count,
                             const int least)
{
    const int item = own_item();
    int sum = 0;

    for (long n = item; n < count; n += ITEMS)
        sum += ranks[n] >= least;
    area->sums[item] = sum;
    GROUP_BARRIER();
    for (int step = ITEMS / 2; step > 0; step /= 2) {
        if (item < step)
            area->sums[item] += area->sums[item + step];
        GROUP_BARRIER();
    }
    const long all = area->sums[0];
    GROUP_BARRIER();
    return all;
}

/* As select_largest() of cl/cpu/select_largest.h, by all items of a group. Returns how many candidates remain. */
INLINE long keep_largest(__local struct area *area, __global int *ranks, __global int *numbers,
                         const long count, const long wanted, int *threshold)
{
    /* `from_low` ranks are at least `low`, `wanted` or more if there are so many, and `above_high` are above `high`. */
    long low = INT_MIN, high = INT_MAX, from_low = count, above_high = 0, left = 0;

    while (low < high && from_low > wanted) {
        const long middle = low + (high - low + 1) / 2;
        const long from = count_ranks_from(area, ranks, count, (int)middle);
        if (from >= wanted) {
            low = middle;
            from_low = from;
        } else {
            high = middle - 1;
            above_high = from;
        }
    }
    const bool ties = from_low > wanted;
    long equals = ties ? wanted - above_high : 0; /* how many of those that equal `low` remain */
    for (long first = 0; first < count; first += ITEMS) {
        const long n = first + own_item();
        const int rank = n < count ? ranks[n] : NO_SCORE, number = n < count ? numbers[n] : -1;
        const bool equal = ties && rank == low && rank != NO_SCORE;
        const bool above = rank >= low && rank != NO_SCORE && !(ties && rank == low);
        mark_items(area, above, equal);
        const struct counted c = count_items(area->above), e = count_items(area->equal);
        const long place = left + c.before + min((long)e.before, equals);
        if (above || (equal && e.before < equals)) { /* no later than it was read from */
            ranks[place] = rank;
            numbers[place] = number;
        }
        left += c.all + min((long)e.all, equals);
        equals -= min((long)e.all, equals);
        GROUP_BARRIER();
    }
    if (low > INT_MIN)
        *threshold = (int)(ties ? low : low - 1);
    return left;
}

/* ---- scores ----------------------------------------------------------------------------------- */

/* Loads a tile of q of query i, and w of its heads. */
INLINE void load_heads(const struct indexer_arguments *args, const struct sequence *s, const long i,
                       const int head, const int column, __local struct area *area)
{
    const __global storage *q = args->q + query_place(args, s, i);
    const __global float *w = args->w + weight_place(args, s, i);

    for (int n = own_item(); n < HEAD_STEP * DIM_STEP; n += ITEMS) {
        const int h = n / DIM_STEP, d = n % DIM_STEP;
        const bool exists = head + h < HEADS && column + d < DIM_QK;
        area->q[h][d] =
            exists
                ? load1_of(DTYPE, q, (head + h) * args->shape->q_stride[1] + (column + d) * Q_STEP)
                : 0.0f;
    }
    for (int h = own_item(); h < HEAD_STEP; h += ITEMS)
        area->w[h] = head + h < HEADS ? w[(head + h) * args->shape->w_stride[1]] : 0.0f;
}

/* The scores of an item's keys. */
INLINE void score_keys(const struct indexer_arguments *args, const struct sequence *s, const long i,
                       const long *places, __local struct area *area, float *scores)
{
    for (int n = 0; n < KEYS; n++)
        scores[n] = 0.0f;
    for (int head = 0; head < HEADS; head += HEAD_STEP) {
        float sums[HEAD_STEP][KEYS];
        for (int h = 0; h < HEAD_STEP; h++)
            for (int n = 0; n < KEYS; n++)
                sums[h][n] = 0.0f;
        for (int column = 0; column < DIM_QK; column += DIM_STEP) {
            GROUP_BARRIER();
            load_heads(args, s, i, head, column, area);
            GROUP_BARRIER();
            for (int d = 0; d < min(DIM_STEP, DIM_QK - column); d++) {
                for (int n = 0; n < KEYS; n++) {
                    const float x = load1_of(DTYPE, args->k, places[n] + (column + d) * K_STEP);
                    for (int h = 0; h < HEAD_STEP; h++)
                        sums[h][n] = FMA(area->q[h][d], x, sums[h][n]);
                }
            }
        }
        for (int h = 0; h < min(HEAD_STEP, HEADS - head); h++)
            for (int n = 0; n < KEYS; n++)
                scores[n] = FMA(area->w[h], sums[h][n] < 0.0f ? 0.0f : sums[h][n], scores[n]);
    }
}

/* ---- kernels ---------------------------------------------------------------------------------- */

/* A task: query i of a batch and a part of the keys that it sees. */
INLINE void choose_for_query(const struct indexer_arguments *args, const long number,
                             __global int *room, __local struct area *area)
{
    const long topk = args->shape->topk, seq_kv = args->shape->seq_kv;
    const long i = number / SPLITS % args->shape->seq_q;
    const int split = number % SPLITS;
    const struct sequence s = sequence_of(args, number / SPLITS / args->shape->seq_q);
    __global int *ranks = room, *numbers = room + CANDIDATE_ROOM(topk, seq_kv);
    long count = 0;
    int threshold = INT_MIN;

    if (i >= s.rows)
        return;
    const long seen = seen_keys(&s, i);
    const long begin = seen * split / SPLITS, end = seen * (split + 1) / SPLITS;
    for (long j = begin; j < end; j += BLOCK_KEYS) {
        long places[KEYS];
        bool present[KEYS];
        float scores[KEYS];
        for (int n = 0; n < KEYS; n++) {
            const long key = j + n * ITEMS + own_item();
            places[n] = key < end ? key_place(args, &s, key) : -1;
            present[n] = places[n] >= 0;
            places[n] = present[n] ? places[n] : 0; /* some element of k, which exists */
        }
        score_keys(args, &s, i, places, area, scores);
        for (int n = 0; n < KEYS; n++) {
            const int rank = present[n] ? score_rank(scores[n]) : NO_SCORE;
            const bool kept = rank > threshold;
            mark_items(area, kept, false);
            const struct counted c = count_items(area->above);
            if (kept) {
                ranks[count + c.before] = rank;
                numbers[count + c.before] = (int)(j + n * ITEMS + own_item());
            }
            count += c.all;
            GROUP_BARRIER();
        }
        /* one call, since each copy of it takes PoCL long to compile */
        if (count > (j + BLOCK_KEYS < end ? CANDIDATES(topk, seq_kv) : topk))
            count = keep_largest(area, ranks, numbers, count, topk, &threshold);
    }
    write_candidates(args, &s, i, split, ranks, numbers, count, own_item(), ITEMS);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
indexer_choose(PARAMETERS_indexer_choose)
{
    __local struct area area;
    const struct indexer_arguments arguments = ARGUMENTS_indexer_choose, *const args = &arguments;
    const long tasks = args->shape->batch * args->shape->seq_q * SPLITS;
    const long width = CANDIDATE_ROOM(args->shape->topk, args->shape->seq_kv);
    __global int *room = (__global int *)args->workspace + get_group_id(0) * (2 * width);

    for (long task = get_group_id(0); task < tasks; task += GROUPS) {
        choose_for_query(args, task, room, &area);
        GROUP_BARRIER();
    }
}

#if SPLITS > 1
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
indexer_merge(PARAMETERS_indexer_merge)
{
    __local struct area area;
    const struct indexer_arguments arguments = ARGUMENTS_indexer_merge, *const args = &arguments;
    const long topk = args->shape->topk, seq_kv = args->shape->seq_kv, i = get_group_id(0);
    const struct sequence s = sequence_of(args, get_group_id(1));
    int threshold = INT_MIN;

    if (i < s.rows) {
        __global int *ranks = parts_of(args, &s, i), *numbers = ranks + PARTS_ROOM(topk, seq_kv);
        const long count =
            keep_largest(&area, ranks, numbers, SPLITS * LISTED(topk, seq_kv), topk, &threshold);
        write_list(args, &s, i, ranks, numbers, count, own_item(), ITEMS);
    }
    END_KERNEL();
}
#endif
