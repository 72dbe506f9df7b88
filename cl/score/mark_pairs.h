/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage of families that read a mask or bias, or call a mask function, by blocks of queries and tiles of keys. It
 * writes one byte (a mark) for each block and tile to the workspace: is the tile empty, partial or
 * full? All heads and batches that share the mask share the marks. Empty tiles are skipped; the
 * mask is not read, and the function not called, in full ones. Windows and lengths are not considered: they can only mask more.
 *
 * The stage is there where the host defines its parameters (src/families/pair_marks.h).
 * Kernels say MARK_M and MARK_N, queries and keys of what has a mark, and marks_begin(args), where marks begin in the
 * workspace, in floats. */
#pragma once
#include "common/sequence.h"
#include "score/function.h"

#ifdef PARAMETERS_mark_pairs
#define HAS_MARKS 1
#else
#define HAS_MARKS 0
#endif

#include "score/mark_sizes.h"

enum {
    MARK_SHARERS = IS_BACKWARD ? BACKWARD_MARK_SHARERS : FORWARD_MARK_SHARERS,
    MARK_LANES = 16, /* the pairs that a work-item without others asks for at a time */
    MARK_EMPTY = 1,  /* no key of the tile is visible to any row */
    MARK_FULL = 2    /* the mask hides no pair of the tile */
};

/* The number of batches (dimension 0) or heads (1) with marks of their own, as in pair_marks.c. */
INLINE long mark_maps(const struct arguments *args, const int dimension)
{
    bool own = HAS_MASK && args->shape->mask_stride[dimension] != 0;

    if (HAS_BIAS)
        own = own || args->shape->bias_stride[dimension] != 0;
    if (HAS_MASK_FUNCTION)
        own = own || (dimension ? MASK_FUNCTION_OF_HEADS
                                : MASK_FUNCTION_OF_BATCHES || HAS_Q_LENGTHS || HAS_KV_LENGTHS);
    if (HAS_TOTAL_Q || HAS_TOTAL_KV) /* sequences of other lengths */
        own = own || dimension == 0;
    return !own ? 1 : dimension ? args->shape->heads : args->shape->batch;
}

/* Returns whether the stage runs, as in pair_marks.c. */
INLINE bool are_marked(const struct arguments *args)
{
    bool pairs = HAS_MASK && args->shape->mask_stride[2] != 0 && args->shape->mask_stride[3] != 0;

    if (HAS_BIAS)
        pairs = pairs || (args->shape->bias_stride[2] != 0 && args->shape->bias_stride[3] != 0);
    pairs = HAS_MASK_FUNCTION ||
            (pairs && (args->shape->heads * args->shape->batch >=
                           MARK_SHARERS * mark_maps(args, 0) * mark_maps(args, 1) ||
                       longest_q(args) * longest_kv(args) <= FEW_MARKED_PAIRS));
    return pairs && longest_q(args) >= LEAST_MARKED_QUERIES &&
           longest_kv(args) >= LEAST_MARKED_KEYS;
}

INLINE long marked_tiles(const struct arguments *args)
{
    return (longest_kv(args) + MARK_N - 1) / MARK_N;
}

/* The first mark of the block that query i is in. */
INLINE long marks_of_block(const struct arguments *args, const long b, const long h, const long i)
{
    const long heads = mark_maps(args, 1);
    const long map = (mark_maps(args, 0) > 1 ? b * heads : 0) + (heads > 1 ? h : 0);

    return (map * ((longest_q(args) + MARK_M - 1) / MARK_M) + i / MARK_M) * marked_tiles(args);
}

/* The address of the first mark; null if there are no marks. */
INLINE const __global uchar *all_marks(const struct arguments *args)
{
    return are_marked(args) ? (const __global uchar *)(args->workspace + marks_begin(args)) : 0;
}

/* Combines (AND) the marks of `queries` queries from i on and `keys` keys from j on; both may begin
 * within a mark and span several. The result is undefined if there are no pairs. Intel's compiler for CPUs needs an inner
 * loop with one condition (doc/design/drivers.md). */
INLINE int mark_of_pairs(const struct arguments *args, const __global uchar *marks, const long b,
                         const long h, const long i, const long queries, const long j,
                         const long keys)
{
    int mark = MARK_EMPTY | MARK_FULL;

    if (!marks)
        return 0;
    for (long y = i / MARK_M; y * MARK_M < i + queries && mark; y++) {
        const __global uchar *of_block = marks + marks_of_block(args, b, h, y * MARK_M);
        for (long x = j / MARK_N; x * MARK_N < j + keys; x++)
            mark &= of_block[x];
    }
    return mark;
}

/* Two flags of a row's bytes, each nonzero if set: some byte is not 0, some byte is 0. */
INLINE void look_at_row(const __global uchar *p, const int keys, ulong *some, ulong *gaps)
{
    const ulong ones = 0x0101010101010101UL, highest = 0x8080808080808080UL;
    int n = 0;

    for (; n + 8 <= keys; n += 8) {
        const ulong bytes = as_ulong(vload8(0, p + n));
        *some |= bytes;
        *gaps |= (bytes - ones) & ~bytes & highest; /* is nonzero if and only if a byte is 0 */
    }
    for (; n < keys; n++) {
        *some |= p[n];
        *gaps |= p[n] == 0;
    }
}

/* The mark of a tile of the mask; few of a tile's rows are read where some pairs are visible and others not. */
INLINE int mark_of_mask(const __global uchar *p, const long row, const long step, const int rows,
                        const int keys)
{
    ulong some = 0, gaps = 0;

    for (int r = 0; r < rows && !(some && gaps); r++, p += row) {
        if (step == 1) {
            look_at_row(p, keys, &some, &gaps);
        } else {
            for (int n = 0; n < keys; n++) {
                some |= p[n * step];
                gaps |= p[n * step] == 0;
            }
        }
    }
    return !some ? MARK_EMPTY : !gaps ? MARK_FULL : 0;
}

/* The mark of a tile of the bias: MARK_EMPTY if the bias is -inf throughout. */
INLINE int mark_of_bias(const __global bias_storage *p, const long row, const long step,
                        const int rows, const int keys)
{
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < keys; n++)
            if (load1_of(BIAS_DTYPE, p, r * row + n * step) != -INFINITY)
                return 0;
    return MARK_EMPTY;
}

/* The mark of a tile of the mask function, both ones if it has no pairs. Few of its rows are asked for where some
 * pairs are visible and others not. */
INLINE int mark_of_function(const struct arguments *args, const struct function_pair first,
                            const int rows, const int keys)
{
    const struct mask_function_operands o = mask_operands(args);
    int some = 0, all = 1;

#ifdef SIMD_WIDTH /* on CPUs */
    for (int n = 0; n < keys && rows > 0 && !(some && !all); n++) {
        for (int m = 0; m < rows; m += MARK_LANES) {
            EACH_LANE
            for (int c = 0; c < MARK_LANES; c++) {
                const int sees =
                    mask_function(function_pair_after(first, min(m + c, rows - 1), n), o);
                some |= sees;
                all &= sees;
            }
        }
    }
#else
    for (int n = 0; n < rows * keys && !(some && !all); n++) {
        const int sees = mask_function(function_pair_after(first, n / keys, n % keys), o);
        some |= sees;
        all &= sees;
    }
#endif
    return (some ? 0 : MARK_EMPTY) | (all ? MARK_FULL : 0);
}

/* Computes the mark of some rows of a tile that begins with query i and key j. */
INLINE int mark_of_rows(const struct arguments *args, const long b, const long h, const long i,
                        const long j, const int rows, const int keys)
{
    int mark = 0;

    if (HAS_MASK)
        mark = mark_of_mask(args->mask + row_offset(args->shape->mask_stride, b, h, i) +
                                j * args->shape->mask_stride[3],
                            args->shape->mask_stride[2], args->shape->mask_stride[3], rows, keys);
    if (HAS_BIAS && mark != MARK_EMPTY)
        mark |= mark_of_bias(args->bias + row_offset(args->shape->bias_stride, b, h, i) +
                                 j * args->shape->bias_stride[3],
                             args->shape->bias_stride[2], args->shape->bias_stride[3], rows, keys);
    if (HAS_MASK_FUNCTION && !(mark & MARK_EMPTY)) {
        const struct extent e = extent_of(args, b); /* only pairs that exist are asked for */
        const long queries = clamp(e.queries - i, 0L, (long)rows);
        const long end = queries ? end_key(args, e, i + queries - 1) : 0;
        const int seen = mark_of_function(args, function_pair_within(args, e, b, h, i, j),
                                          (int)queries, (int)clamp(end - j, 0L, (long)keys));
        mark = HAS_MASK && !(seen & MARK_EMPTY) ? mark & seen : seen;
    }
    return mark;
}

/* The ranges below have 1 batch or 1 head where all of them share their marks. */
#if HAS_MARKS && defined(SIMD_WIDTH) /* on CPUs */
/* The global range is (blocks of queries, heads, batches). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void mark_pairs(PARAMETERS_mark_pairs)
{
    struct arguments arguments = ARGUMENTS_mark_pairs;
    ENTER_SEQUENCE(args, &arguments, get_global_id(2));
    const long i = get_global_id(0) * MARK_M, h = get_global_id(1), b = get_global_id(2);
    const int rows = (int)clamp(args->shape->seq_q - i, 0L, (long)MARK_M);
    __global uchar *marks =
        (__global uchar *)(args->workspace + marks_begin(args)) + marks_of_block(args, b, h, i);

    for (long tile = 0; tile < marked_tiles(args); tile++) {
        const long j = tile * MARK_N;
        marks[tile] = (uchar)mark_of_rows(args, b, h, i, j, rows,
                                          (int)clamp(args->shape->seq_kv - j, 0L, (long)MARK_N));
    }
}
#elif HAS_MARKS
/* Work-groups are numbered by (blocks of queries * tiles of keys, heads, batches); a work-item
 * takes a row of the tile. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void mark_pairs(PARAMETERS_mark_pairs)
{
    struct arguments arguments = ARGUMENTS_mark_pairs;
    ENTER_SEQUENCE(args, &arguments, get_group_id(2));
    __local int not_of_all; /* the bits that some row's mark lacks */
    const long tiles = marked_tiles(args), tile = get_group_id(0) % tiles, j = tile * MARK_N;
    const long i = get_group_id(0) / tiles * MARK_M, h = get_group_id(1), b = get_group_id(2);
    const int rows = (int)clamp(args->shape->seq_q - i, 0L, (long)MARK_M);
    const int keys = (int)clamp(args->shape->seq_kv - j, 0L, (long)MARK_N);
    int mark = MARK_EMPTY | MARK_FULL;

    if (get_local_id(0) == 0)
        not_of_all = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = get_local_id(0); r < rows; r += THREADS)
        mark &= mark_of_rows(args, b, h, i + r, j, 1, keys);
    atomic_or(&not_of_all, ~mark);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        ((__global uchar *)(args->workspace +
                            marks_begin(args)))[marks_of_block(args, b, h, i) + tile] =
            (uchar)(~not_of_all & (MARK_EMPTY | MARK_FULL));
}
#endif
