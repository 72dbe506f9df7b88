/* SPDX-License-Identifier: Apache-2.0 */
/* The rows and keys of a work-item of split_cpu. Needs BLOCK_M, BLOCK_N and SPLIT_K. */
#pragma once
#include "common/common.h"
#include "cpu/simd.h"

/* A block of rows: queries of the query heads that share a kv head. */
struct row_block {
    long b, kv_head;
    struct extent e;
    int rows; /* the number of rows in use, 1..BLOCK_M */
    long head[BLOCK_M], query[BLOCK_M];
    long first[BLOCK_M], end[BLOCK_M]; /* keys that a row may see */
    long all_begin, all_end;           /* keys that all rows may see */
    long row;                   /* the first row's number among those that share the kv head */
    const __global float *bits; /* the bits of all block lists (HAS_BLOCKS) */
#if OPERAND_PAIRS
    float scale[BLOCK_M]; /* the factor that each row's products are scaled by */
#endif
};

/* Fills in the rows of the index'th block of a kv head; rows past the last repeat the last one. */
INLINE void find_block_rows(const struct arguments *args, const long index, struct row_block *block)
{
    const long all = args->shape->group * args->shape->seq_q, row = index * BLOCK_M;

    block->rows = (int)min(all - row, (long)BLOCK_M);
    block->row = row;
    block->all_begin = 0;
    block->all_end = LONG_MAX;
    for (int r = 0; r < BLOCK_M; r++) {
        const long n = row + min(r, block->rows - 1);
        block->head[r] = block->kv_head * args->shape->group + n / args->shape->seq_q;
        block->query[r] = n % args->shape->seq_q;
        block->first[r] = first_key(args, block->e, block->query[r]);
        block->end[r] = end_key(args, block->e, block->query[r]);
        block->all_begin = max(block->all_begin, block->first[r]);
        block->all_end = min(block->all_end, block->end[r]);
    }
#if HAS_MASK_KEYS
    block->all_end = min(block->all_end, block->e.mask_begin);
#endif
}

/* Divides the keys that some row may see into SPLIT_K ranges, and finds range number `part`. Those of an invariant
 * problem count from key 0, and begin with a whole tile. */
INLINE void find_part_of_keys(const struct row_block *block, const long part, long *begin,
                              long *end)
{
    long first = LONG_MAX, last = 0;

    for (int r = 0; r < block->rows; r++) {
        if (block->first[r] >= block->end[r])
            continue;
        first = min(first, block->first[r]);
        last = max(last, block->end[r]);
    }
    first = min(first, last) & ~3L; /* four keys share dropout's random numbers */
#if HAS_INVARIANT
    *end = min((part + 1) * INVARIANT_PART_KEYS, last);
    *begin = min(max(part * INVARIANT_PART_KEYS, first / BLOCK_N * BLOCK_N), *end);
#else
    const long share = (last - first + SPLIT_K * BLOCK_N - 1) / (SPLIT_K * BLOCK_N) * BLOCK_N;
    *begin = min(first + part * share, last);
    *end = min(*begin + share, last);
#endif
}
