/* SPDX-License-Identifier: Apache-2.0 */
/* indexer_gradients: dq, dk and dw of the scores of chosen keys, on CPUs and GPUs. Formula: "Indexer" in clattn/problem.h.
 *
 * An entry is a place in the lists; it counts if it names a key that its query sees.
 *
 * Stages   gradients_of_queries  global (rows of the lists up to whole groups, words): an item has a query and 32 heads. For
 *                                each entry it keeps a bit of each head, whether its product is positive; then it sums
 *                                dw and dq up
 *          count_entries         global (RANGES): an item has a range of the rows of k, and counts the entries that name
 *                                each of them
 *          place_entries         global (RANGES): the same items list these entries, key by key, in rising order
 *          gradients_of_keys     global (rows of k up to whole groups): an item sums dk of a key up, over its entries in
 *                                that order
 * Sums     have one writer each, and an order that depends on the lists alone.
 * SIMD lanes are columns, BLOCK of which are summed up in registers at a time.
 * Workspace indexer_gradients_sizes.h
 * Tunables src/families/indexer_gradients/indexer_gradients.def, all defined by the host; no fallbacks here. */
#if !defined(SIMD_WIDTH) || !defined(ITEMS) || !defined(RANGES)
#error "indexer_gradients.cl must be built with all of its tunables defined"
#endif
#define SPLITS 1
#include "families/indexer_gradients/indexer_gradients_sizes.h"
#include "common/indexer.h"
#include "cpu/simd_storage.h"

#define BLOCK_VECTORS 8
#define BLOCK (BLOCK_VECTORS * SIMD_WIDTH)

/* ---- the workspace -------------------------------------------------------------------------- */

/* The number of rows of the lists (those of q), and of k. */
INLINE long rows_of_lists(const struct indexer_arguments *args)
{
    return HAS_TOTAL_Q ? args->shape->total_q : args->shape->batch * args->shape->seq_q;
}

INLINE long key_rows(const struct indexer_arguments *args)
{
    return HAS_TOTAL_KV ? args->shape->total_kv : args->shape->batch * args->shape->seq_kv;
}

INLINE __global int *counts_of(const struct indexer_arguments *args)
{
    return (__global int *)args->workspace;
}

INLINE __global int *ends_of(const struct indexer_arguments *args)
{
    return counts_of(args) + COUNTS_ROOM(key_rows(args));
}

INLINE __global int *entries_of(const struct indexer_arguments *args)
{
    return ends_of(args) + COUNTS_ROOM(key_rows(args));
}

/* The word of an entry for heads word * WORD_HEADS and following. */
INLINE __global uint *word_of(const struct indexer_arguments *args, const long entry,
                              const int word)
{
    const long entries = rows_of_lists(args) * args->shape->topk;

    return (__global uint *)(entries_of(args) + ENTRIES_ROOM(entries)) + entry * WORDS + word;
}

/* ---- rows and entries ----------------------------------------------------------------------- */

/* A row of the lists: query i of a sequence, which sees the first `seen` keys. A row that is not in use sees none. */
struct row {
    struct sequence s;
    long i, seen;
};

INLINE struct row numbered_row(const struct indexer_arguments *args, const long number)
{
    struct row row = {.i = number};

#if HAS_TOTAL_Q
    for (long b = 0; b < args->shape->batch; b++) {
        const struct sequence s = sequence_of(args, b);
        if (number < s.first_row || number >= s.first_row + s.rows)
            continue;
        row.s = s;
        row.i = number - s.first_row;
        row.seen = seen_keys(&row.s, row.i);
        break;
    }
#else
    row.s = sequence_of(args, number / args->shape->seq_q);
    row.i = number % args->shape->seq_q;
    row.seen = seen_keys(&row.s, row.i);
#endif
    return row;
}

/* The row of k that entry n of a row's list names; -1 if it does not count. */
INLINE long named_row(const struct indexer_arguments *args, const struct row *row,
                      const long number, const long n)
{
    const long j = args->chosen[number * args->shape->topk + n];

    if (j < 0 || j >= row->seen)
        return -1;
    return (HAS_TOTAL_KV ? row->s.first_key : row->s.b * args->shape->seq_kv) + j;
}

/* The place of row `number` of a tensor whose rows are in batches of `rows`, or all in one. */
INLINE long place_of_numbered(const long *stride, const bool packed, const long rows,
                              const long number)
{
    return packed ? number * stride[2] : number / rows * stride[0] + number % rows * stride[2];
}

INLINE const __global storage *query_row(const struct indexer_arguments *args, const long number,
                                         const int head)
{
    return args->q +
           place_of_numbered(args->shape->q_stride, HAS_TOTAL_Q, args->shape->seq_q, number) +
           head * args->shape->q_stride[1];
}

INLINE const __global storage *named_key(const struct indexer_arguments *args, const long number)
{
    return args->k +
           place_of_numbered(args->shape->k_stride, HAS_TOTAL_KV, args->shape->seq_kv, number);
}

INLINE float head_weight(const struct indexer_arguments *args, const long number, const int head)
{
    return args
        ->w[place_of_numbered(args->shape->w_stride, HAS_TOTAL_Q, args->shape->seq_q, number) +
            head * args->shape->w_stride[1]];
}

/* Adds `factor` times a block of columns of a row. */
INLINE void add_block(const __global storage *from, const long step, const int column,
                      const float factor, lanes *sums)
{
    UNROLL
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        const int d = column + v * SIMD_WIDTH;
        if (d < DIM_QK)
            sums[v] = FMA((lanes)(factor), load_row(from + d * step, step, DIM_QK - d), sums[v]);
    }
}

/* Stores a block of columns of a row, each times `factor`. */
INLINE void store_sums_of_row(const lanes *sums, const float factor, __global storage *to,
                              const long step, const int column)
{
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        float x[SIMD_WIDTH];
        VECTOR(vstore)(sums[v] * factor, 0, x);
        for (int c = 0; c < SIMD_WIDTH; c++) {
            const int d = column + v * SIMD_WIDTH + c;
            if (d < DIM_QK)
                store1_of(DTYPE, x[c], to, d * step);
        }
    }
}

/* ---- queries -------------------------------------------------------------------------------- */

/* Keeps the bits of a row's entries for some heads, and stores their dw. */
INLINE void add_head_weights(const struct indexer_arguments *args, const long number,
                             const struct row *row, const int word)
{
    const int first = word * WORD_HEADS, heads = min(WORD_HEADS, HEADS - first);
    const long topk = args->shape->topk;
    __global float *dw = args->dw + place_of_numbered(args->shape->dw_stride, HAS_TOTAL_Q,
                                                      args->shape->seq_q, number);
    float sums[WORD_HEADS];

    for (int h = 0; h < heads; h++)
        sums[h] = 0.0f;
    for (long n = 0; n < topk; n++) {
        const long key = named_row(args, row, number, n);
        uint bits = 0;
        for (int h = 0; h < heads && key >= 0; h++) {
            const __global storage *q = query_row(args, number, first + h),
                                   *k = named_key(args, key);
            lanes products = 0.0f;
            for (int d = 0; d < DIM_QK; d += SIMD_WIDTH)
                products = FMA(load_row(q + d * Q_STEP, Q_STEP, DIM_QK - d),
                               load_row(k + d * K_STEP, K_STEP, DIM_QK - d), products);
            const float x = sum_lanes(products);
            if (x <= 0.0f)
                continue;
            bits |= 1u << h;
            sums[h] = FMA(args->dscores[number * topk + n], x, sums[h]);
        }
        *word_of(args, number * topk + n, word) = bits;
    }
    for (int h = 0; h < heads; h++)
        dw[(first + h) * args->shape->dw_stride[1]] = sums[h];
}

/* Stores dq of a row and some heads, by the bits of its entries. */
INLINE void sum_queries(const struct indexer_arguments *args, const long number,
                        const struct row *row, const int word)
{
    const int first = word * WORD_HEADS, heads = min(WORD_HEADS, HEADS - first);
    const long topk = args->shape->topk;

    for (int h = 0; h < heads; h++) {
        __global storage *dq =
            args->dq +
            place_of_numbered(args->shape->dq_stride, HAS_TOTAL_Q, args->shape->seq_q, number) +
            (first + h) * args->shape->dq_stride[1];
        const float weight = head_weight(args, number, first + h);
        for (int d = 0; d < DIM_QK; d += BLOCK) {
            lanes sums[BLOCK_VECTORS];
            for (int v = 0; v < BLOCK_VECTORS; v++)
                sums[v] = 0.0f;
            for (long n = 0; n < topk && row->seen > 0; n++)
                if (*word_of(args, number * topk + n, word) >> h & 1u)
                    add_block(named_key(args, named_row(args, row, number, n)), K_STEP, d,
                              args->dscores[number * topk + n], sums);
            store_sums_of_row(sums, row->seen > 0 ? weight : 0.0f, dq, args->shape->dq_stride[3],
                              d);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gradients_of_queries(PARAMETERS_gradients_of_queries)
{
    const struct indexer_arguments arguments = ARGUMENTS_gradients_of_queries, *const args =
                                                                                   &arguments;
    const long number = get_global_id(0);

    if (number >= rows_of_lists(args))
        return;
    const struct row row = numbered_row(args, number);
    add_head_weights(args, number, &row, get_group_id(1));
    sum_queries(args, number, &row, get_group_id(1));
}

/* ---- the entries of each key ---------------------------------------------------------------- */

/* Goes through all entries that name rows of k of an item's range: counts them, or writes them to their places. */
INLINE void visit_entries(const struct indexer_arguments *args, const bool places)
{
    const long keys = key_rows(args), topk = args->shape->topk;
    const long begin = keys * get_global_id(0) / RANGES,
               end = keys * (get_global_id(0) + 1) / RANGES;
    __global int *counts = places ? ends_of(args) : counts_of(args), *entries = entries_of(args);

    for (long number = 0; number < rows_of_lists(args) && begin < end; number++) {
        const struct row row = numbered_row(args, number);
        for (long n = 0; n < topk && row.seen > 0; n++) {
            const long key = named_row(args, &row, number, n);
            if (key < begin || key >= end)
                continue;
            const int place = counts[key]++;
            if (places)
                entries[place] = (int)(number * topk + n);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
count_entries(PARAMETERS_count_entries)
{
    const struct indexer_arguments arguments = ARGUMENTS_count_entries, *const args = &arguments;
    const long keys = key_rows(args), item = get_global_id(0);

    for (long key = keys * item / RANGES; key < keys * (item + 1) / RANGES; key++)
        counts_of(args)[key] = 0;
    visit_entries(args, false);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
place_entries(PARAMETERS_place_entries)
{
    const struct indexer_arguments arguments = ARGUMENTS_place_entries, *const args = &arguments;
    const long keys = key_rows(args), item = get_global_id(0);
    int before = 0;

    for (long key = 0; key < keys * item / RANGES; key++)
        before += counts_of(args)[key];
    for (long key = keys * item / RANGES; key < keys * (item + 1) / RANGES; key++) {
        ends_of(args)[key] = before;
        before += counts_of(args)[key];
    }
    visit_entries(args, true);
}

/* ---- keys ----------------------------------------------------------------------------------- */

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gradients_of_keys(PARAMETERS_gradients_of_keys)
{
    const struct indexer_arguments arguments = ARGUMENTS_gradients_of_keys, *const args =
                                                                                &arguments;
    const long key = get_global_id(0), topk = args->shape->topk;

    if (key >= key_rows(args))
        return;
    const int end = ends_of(args)[key], begin = end - counts_of(args)[key];
    __global storage *sums_of_key =
        args->dk +
        place_of_numbered(args->shape->dk_stride, HAS_TOTAL_KV, args->shape->seq_kv, key);
    for (int d = 0; d < DIM_QK; d += BLOCK) {
        lanes sums[BLOCK_VECTORS];
        for (int v = 0; v < BLOCK_VECTORS; v++)
            sums[v] = 0.0f;
        for (int n = begin; n < end; n++) {
            const long entry = entries_of(args)[n];
            for (int word = 0; word < WORDS; word++)
                for (uint left = *word_of(args, entry, word); left; left &= left - 1) {
                    const int head = word * WORD_HEADS + 31 - (int)clz(left & -left);
                    add_block(query_row(args, entry / topk, head), Q_STEP, d,
                              args->dscores[entry] * head_weight(args, entry / topk, head), sums);
                }
        }
        store_sums_of_row(sums, 1.0f, sums_of_key, args->shape->dk_stride[3], d);
    }
}
