/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a work-group of split-K on GPUs: BLOCK_M of the rows that share a kv head (queries of
 * all its query heads), and one range of keys. There are SPLIT_K ranges; those of an invariant
 * problem have INVARIANT_PART_KEYS keys. It leaves partial results for gpu/split_combine.h.
 *
 * Workspace  [rows][ranges][DIM_V] o, then [rows][ranges][2] row_max and row_sum; rows are (batch,
 *            heads, seq_q). A range that saw nothing has a row_max of -inf and zeros. Then the bits of
 *            block lists.
 *
 * Sizes      BLOCK_M, BLOCK_N, SPLIT_K, THREADS. */
#pragma once
#include "common/key_rows.h"
#include "common/sequence.h"
#include "families/invariant_sizes.h"
#include "score/score.h"

/* The number of ranges that the keys are divided into. */
INLINE long count_ranges(const struct arguments *args)
{
    return HAS_INVARIANT
               ? max((longest_kv(args) + INVARIANT_PART_KEYS - 1) / INVARIANT_PART_KEYS, 1L)
               : SPLIT_K;
}

/* The bits of block lists follow the partial results in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
    return args->shape->batch * args->shape->heads * longest_q(args) * count_ranges(args) *
           (DIM_V + 2);
}

#include "score/mark_blocks.h"

/* The rows and keys of a work-group. */
struct task {
    long b, kv_head, part;
    long row; /* its first row's number among those that share the kv head */
    int rows; /* the number of rows in use, 1..BLOCK_M */
    struct extent e;
    long begin, end;         /* keys of its range */
    long all_begin, all_end; /* keys that all its rows may see */
#if HAS_BLOCKS
    const __global float *bits; /* the bits of all block lists */
#endif
};

/* The head and the query of row r; later rows repeat the last. */
INLINE void find_row(const struct arguments *args, const struct task *task, const int r, long *h,
                     long *i)
{
    const uint row = (uint)task->row + min(r, task->rows - 1); /* the host keeps it in 32 bits */

    *h = task->kv_head * args->shape->group + row / (uint)args->shape->seq_q;
    *i = row % (uint)args->shape->seq_q;
}

/* Divides the keys that some row of the group may see into ranges of whole blocks; the numbers
 * of blocks differ by at most one. In an invariant problem a key has one place in one block of one range. */
INLINE void find_range(const struct arguments *args, struct task *task)
{
    const long first = task->row % args->shape->seq_q;
    const bool wraps = first + task->rows > args->shape->seq_q;
    const long low = wraps ? 0 : first,
               high = wraps ? args->shape->seq_q - 1 : first + task->rows - 1;
    /* Dropout gives four keys one counter of random numbers: a thread group has all four. */
    const long begin = first_key(args, task->e, low) & ~3L;
    const long end = end_key(args, task->e, min(high, max(task->e.queries - 1, low)));

#if HAS_INVARIANT
    task->begin = max(begin / BLOCK_N * BLOCK_N, task->part * INVARIANT_PART_KEYS);
    task->end = min(end, (task->part + 1) * INVARIANT_PART_KEYS);
#else
    const long blocks = (max(end - begin, 0L) + BLOCK_N - 1) / BLOCK_N;

    task->begin = begin + blocks * task->part / SPLIT_K * BLOCK_N;
    task->end = min(end, begin + blocks * (task->part + 1) / SPLIT_K * BLOCK_N);
#endif
    task->all_begin = first_key(args, task->e, high);
    task->all_end = min(end_key(args, task->e, low), end_key(args, task->e, high));
}

/* The number of blocks of rows in the longest sequence. */
#define ROW_BLOCKS(args) (((args)->shape->group * longest_q(args) + BLOCK_M - 1) / BLOCK_M)

INLINE struct task find_range_task(const struct arguments *args)
{
    const long blocks = ROW_BLOCKS(args);
    const long group = get_group_id(0) / blocks, parts = count_ranges(args);
    struct task task;

    task.b = group / parts / args->shape->kv_heads;
    task.kv_head = group / parts % args->shape->kv_heads;
    task.part = group % parts;
    task.row = get_group_id(0) % blocks * BLOCK_M;
    task.rows = (int)min(args->shape->group * args->shape->seq_q - task.row, (long)BLOCK_M);
    task.e = extent_of(args, task.b);
    find_range(args, &task);
#if HAS_BLOCKS
    task.bits = args->workspace + marks_begin(args);
#endif
    return task;
}

/* ---- tiles of keys that some row sees -------------------------------------------------------- */

/* Tiles that block lists, or else a mask, a bias and a mask function, hide from all rows are skipped. Block lists
 * have bits of columns. For the others, each range keeps at most SEEN_WORDS words of bits in
 * local memory; each bit stands for enough tiles to cover the range. */
#define SKIPS_TILES (HAS_BLOCKS || MARKS_TILES)

/* The number of keys that one bit stands for. */
INLINE uint keys_of_bit(const struct task *task)
{
    /* the host keeps this within 32 bits */
    const uint keys = (uint)max(task->end - task->begin, 1L);

    return (keys + 32 * SEEN_WORDS * BLOCK_N - 1) / (32 * SEEN_WORDS * BLOCK_N) * BLOCK_N;
}

/* Sets the bits of tiles that some row sees; the search for a key ends at the first such row. */
INLINE void mark_tiles(const struct arguments *args, const struct task *task,
                       volatile __local uint *seen)
{
#if MARKS_TILES
    const uint step = keys_of_bit(task);

    for (int n = get_local_id(0); n < SEEN_WORDS; n += THREADS)
        seen[n] = 0;
    LOCAL_BARRIER(); /* no bit is set */
    for (long j = task->begin + get_local_id(0); j < task->end; j += THREADS) {
        const uint bit = (uint)(j - task->begin) / step;
        bool sees = false;
        for (int r = 0; r < task->rows && !sees; r++) {
            long h, i;
            find_row(args, task, r, &h, &i);
            sees = unmasked(args, task->e, BLOCK_LISTED, task->b, h, i, j);
        }
        if (sees)
            atomic_or((volatile __local int *)&seen[bit / 32], (int)(1u << bit % 32));
    }
    LOCAL_BARRIER(); /* the bits are complete */
#endif
}

/* The tile from key j on, or the first after it that some row may see; the range's end if there is none. */
INLINE long next_tile_of_task(const struct arguments *args, const struct task *task, long j,
                              const volatile __local uint *seen)
{
#if HAS_BLOCKS
    return next_tile_of_rows(args, task->bits, task->b, task->kv_head, task->row, task->rows,
                             task->begin, j, task->end, BLOCK_N);
#elif MARKS_TILES
    const uint step = keys_of_bit(task);

    while (j < task->end) {
        const uint bit = (uint)(j - task->begin) / step;
        if (seen[bit / 32] >> bit % 32 & 1u)
            return j;
        j = task->begin + (long)(bit + 1) * step;
    }
    return task->end;
#else
    return j;
#endif
}

/* The index of the partial result of query i of head h. */
INLINE long result_of(const struct arguments *args, const struct task *task, const long h,
                      const long i)
{
    return ((task->b * args->shape->heads + h) * longest_q(args) + i) * count_ranges(args) +
           task->part;
}

/* The row_max and row_sum of all partial results, in the workspace. */
#define STATISTICS(args, results)                                                                  \
    ((results) +                                                                                   \
     (args)->shape->batch * (args)->shape->heads * longest_q(args) * count_ranges(args) * DIM_V)
