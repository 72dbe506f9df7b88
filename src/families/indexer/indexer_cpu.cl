/* SPDX-License-Identifier: Apache-2.0 */
/* indexer_cpu: each query's keys with the largest scores, for CPUs. Formula: "Indexer" in clattn/problem.h.
 *
 * Stages     indexer_choose  global (GROUPS), local (1): a group takes every GROUPS-th task, QUERIES queries of a batch
 *                            and one of SPLITS parts of the keys that they see
 *            indexer_merge   with SPLITS > 1: global (seq_q, batch), local (1): the list of a query, from its parts
 * SIMD lanes are keys. A block of keys is packed into panels, which all queries of the task share. For each query the
 *            products of its heads with a panel are computed (cl/cpu/gemm.h, or tiles: cl/bf16/tiles.h), a register
 *            tile at a time, and become scores in registers: the sum over the heads is that of one row after the other.
 * Selection  cl/cpu/select_largest.h: scores above a query's threshold become candidates, in the order of their keys.
 * Ragged     Keys that no query sees and those without a page are not read: another key of the block stands for them,
 *            and its score is no candidate.
 * Workspace  of each group, QUERIES rows of ranks and as many of numbers (CANDIDATE_ROOM); with SPLITS > 1 behind these,
 *            for each row of the lists, its parts' ranks and numbers (PARTS_ROOM)
 * Speed      never build it with fast-math options: the order of sums and the tests for NaN count.
 * Units      vector: floats. pairs and amx: products of bf16 pairs; the host also defines EMULATE.
 * Tunables   src/families/indexer/indexer_cpu.def, all defined by the host; no fallbacks here. */
#include "families/units.h"
#if OPERAND_PAIRS && (!defined(EMULATE) || DTYPE != 2)
#error "pairs are of bf16, and need EMULATE defined"
#endif
#if !defined(SIMD_WIDTH) || !defined(REGISTER_VECTORS) || !defined(REGISTER_ROWS) ||               \
    !defined(BLOCK_PANELS) || !defined(QUERIES) || !defined(SPLITS) || !defined(GROUPS)
#error "indexer_cpu.cl must be built with all of its tunables defined"
#endif
#include "families/indexer/indexer_cpu_sizes.h"
#define IN_PLACE 0
#define STRIP_DEPTH 1
#define STRIP_ROW Q_ROW
#include "cpu/gemm.h"

#include "common/indexer.h"
#include "cpu/prefetch.h"
#include "cpu/select_largest.h"

/* A task: queries `first` to first + rows - 1 of a sequence, of which `used` are in use, and keys begin to end - 1. */
struct task {
    struct sequence s;
    long first, begin, end;
    int rows, used, split;
};

/* The candidates of a query. */
struct candidates {
    long count, seen; /* how many there are; the keys that the query sees */
    int threshold;    /* a rank that is not above it is no candidate */
};

/* ---- packing -------------------------------------------------------------------------------- */

/* Packs all heads of the task's queries, rows of heads that do not exist as zeros. */
NOINLINE void pack_heads(const struct indexer_arguments *args, const struct task *t, operand *q,
                         float *weights)
{
    for (int r = 0; r < t->used; r++) {
        const __global storage *row = args->q + query_place(args, &t->s, t->first + r);
        const __global float *w = args->w + weight_place(args, &t->s, t->first + r);
        for (int h = 0; h < HEAD_ROWS; h++) {
            operand *to = q + (r * HEAD_ROWS + h) * Q_ROW;
            for (int d = 0; d < DEPTH; d += SIMD_WIDTH) {
                const int at = d * VALUES_IN_OPERAND, left = h < HEADS ? DIM_QK - at : 0;
                store_operands(left > 0
                                   ? load_operands(row + h * args->shape->q_stride[1] + at * Q_STEP,
                                                   Q_STEP, left)
                                   : (lanes)(0.0f),
                               to + d);
            }
            weights[r * HEAD_ROWS + h] = h < HEADS ? w[h * args->shape->w_stride[1]] : 0.0f;
        }
    }
}

/* A block of keys: their places in k, and which have one (-1, else 0). Those that have none get the place of another key. */
struct block {
    long places[BLOCK_KEYS];
    int present[BLOCK_KEYS];
    bool any; /* some key has a place */
};

/* Lists keys j to end - 1, at most a block. */
NOINLINE void list_keys(const struct indexer_arguments *args, const struct sequence *s,
                        const long j, const long end, struct block *block)
{
    const int count = clamp(end - j, 0L, (long)BLOCK_KEYS);
    long any = -1;

    for (int n = 0; n < BLOCK_KEYS; n++) {
        block->places[n] = n < count ? key_place(args, s, j + n) : -1;
        block->present[n] = block->places[n] >= 0 ? -1 : 0;
        any = block->places[n] >= 0 ? block->places[n] : any;
    }
    for (int n = 0; n < BLOCK_KEYS; n++)
        block->places[n] = block->places[n] >= 0 ? block->places[n] : any;
    block->any = any >= 0;
}

/* Prefetches share n of `shares` of a block that is packed later: processors do not do so by themselves across rows. */
INLINE void prefetch_block(const struct indexer_arguments *args, const struct block *block,
                           const int n, const int shares)
{
#if UNIT_K
    if (!block->any)
        return;
    for (int key = BLOCK_KEYS * n / shares; key < BLOCK_KEYS * (n + 1) / shares; key++)
        for (int d = 0; d < DIM_QK; d += 64 / (int)sizeof(storage))
            prefetch_l2(args->k + block->places[key] + d);
#endif
}

/* Packs the first `count` keys of a block, rounded up to whole vectors. */
NOINLINE void pack_block(const struct indexer_arguments *args, const long *places, const int count,
                         lanes *panels)
{
    for (int n = 0; n < count; n += SIMD_WIDTH) {
        lanes *panel = panels + n / PANEL * PANEL_VECTORS + n % PANEL / SIMD_WIDTH;
        for (int d = 0; d < DEPTH; d += SIMD_WIDTH) {
            const int at = d * VALUES_IN_OPERAND;
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                x[c] = load_operands(args->k + places[n + c] + at * K_STEP, K_STEP, DIM_QK - at);
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                panel[(d + c) * REGISTER_VECTORS] = x[c];
        }
    }
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Adds the weighted positive parts of the products of some heads. */
INLINE void add_heads(const int heads, const float *weights, const lanes *sums, lanes *scores)
{
    lanes score[REGISTER_VECTORS];

    UNROLL
    for (int v = 0; v < REGISTER_VECTORS; v++)
        score[v] = scores[v];
    for (int h = 0; h < heads; h++) {
        UNROLL
        for (int v = 0; v < REGISTER_VECTORS; v++) {
            const lanes x = sums[h * REGISTER_VECTORS + v];
            score[v] = FMA((lanes)(weights[h]), x < 0.0f ? (lanes)(0.0f) : x, score[v]);
        }
    }
    UNROLL
    for (int v = 0; v < REGISTER_VECTORS; v++)
        scores[v] = score[v];
}

/* The scores of a panel of keys for one query. */
#if OPERAND_TILES
NOINLINE void score_panel(const operand *q, const float *weights, const lanes *panel, lanes *scores)
{
    lanes sums[SUM_VECTORS];

    multiply_all_tiles(HEAD_ROWS / TILE, REGISTER_VECTORS, true, DEPTH / TILE, q,
                       ROW_BYTES_OF(Q_ROW), panel, sizeof(lanes) * REGISTER_VECTORS, sums,
                       sizeof(lanes) * REGISTER_VECTORS);
    for (int v = 0; v < REGISTER_VECTORS; v++)
        scores[v] = 0.0f;
    add_heads(HEADS, weights, sums, scores);
}
#else
NOINLINE void score_panel(const operand *q, const float *weights, const lanes *panel, lanes *scores)
{
    const struct runs runs = {OPERANDS(DIM_QK), OPERANDS(DIM_QK), OPERANDS(DIM_QK), 0};
    lanes sums[SUM_VECTORS];

    for (int v = 0; v < REGISTER_VECTORS; v++)
        scores[v] = 0.0f;
    for (int h = 0; h < HEADS; h += REGISTER_ROWS) {
        const int heads = min(REGISTER_ROWS, HEADS - h);
        multiply_strip(heads, REGISTER_VECTORS, true, q + h * Q_ROW, panel, &runs, sums);
        add_heads(heads, weights + h, sums, scores);
    }
}
#endif

INLINE ints ranks_of(const lanes score)
{
    const ints bits = VECTOR(as_int)(score + 0.0f);

    return score != score ? (ints)(INT_MAX) : bits ^ (bits >> 31 & INT_MAX);
}

/* Scores `count` keys from key j on for query r of a task, and keeps those that may be among the largest. */
INLINE void score_block(const struct indexer_arguments *args, const struct task *t, const int r,
                        const operand *q, const float *weights, const lanes *panels, const long j,
                        const int count, const int *present, const struct block *next,
                        struct candidates *c, __global int *ranks, __global int *numbers)
{
    const ints lane = VECTOR(convert_int)(COUNT_UP);
    long kept = c->count;

    for (int n = 0; n < count; n += PANEL) {
        lanes scores[REGISTER_VECTORS];
        prefetch_block(args, next, r * BLOCK_PANELS + n / PANEL, t->used * BLOCK_PANELS);
        score_panel(q, weights, panels + n / PANEL * PANEL_VECTORS, scores);
        for (int v = 0; v < REGISTER_VECTORS; v++) {
            const int at = n + v * SIMD_WIDTH;
            ints rank = ranks_of(scores[v]);
            if (at + SIMD_WIDTH > count)
                rank = lane < (ints)(count - at) ? rank : (ints)(NO_SCORE);
            if (PAGE_SIZE)
                rank = VECTOR(vload)(0, present + at) ? rank : (ints)(NO_SCORE);
            kept +=
                keep_above(rank, lane + (int)(j + at), c->threshold, ranks + kept, numbers + kept);
        }
    }
    c->count = kept;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

INLINE struct task task_of(const struct indexer_arguments *args, const long number)
{
    const long tiles = (args->shape->seq_q + QUERIES - 1) / QUERIES;
    const long b = number / SPLITS / tiles;
    struct task t = {.s = sequence_of(args, b),
                     .first = number / SPLITS % tiles * QUERIES,
                     .split = number % SPLITS};

    t.rows = clamp(t.s.rows - t.first, 0L, (long)QUERIES);
    t.used = clamp(t.s.queries - t.first, 0L, (long)QUERIES);
    const long seen = t.used > 0 ? seen_keys(&t.s, t.first + t.used - 1) : 0;
    t.begin = seen * t.split / SPLITS / BLOCK_KEYS * BLOCK_KEYS;
    t.end = t.split == SPLITS - 1 ? seen : seen * (t.split + 1) / SPLITS / BLOCK_KEYS * BLOCK_KEYS;
    return t;
}

NOINLINE void choose_for_queries(const struct indexer_arguments *args, const long number,
                                 __global int *room)
{
    const long topk = args->shape->topk, seq_kv = args->shape->seq_kv;
    const long width = CANDIDATE_ROOM(topk, seq_kv), most = CANDIDATES(topk, seq_kv);
    const struct task t = task_of(args, number);
    __attribute__((aligned(64))) operand q[QUERIES * HEAD_ROWS * Q_ROW];
    lanes panels[BLOCK_PANELS * PANEL_VECTORS];
    float weights[QUERIES * HEAD_ROWS];
    struct candidates candidates[QUERIES];
    struct block blocks[2]; /* this one, and the next one */
    int current = 0;

    if (t.rows == 0)
        return;
    for (int r = 0; r < t.rows; r++)
        candidates[r] = (struct candidates){0, min(seen_keys(&t.s, t.first + r), t.end), INT_MIN};
    pack_heads(args, &t, q, weights);
    list_keys(args, &t.s, t.begin, t.end, blocks);
    for (long j = t.begin; j < t.end; j += BLOCK_KEYS, current = !current) {
        const int count = min((long)BLOCK_KEYS, t.end - j);
        const struct block *block = blocks + current, *next = blocks + !current;
        list_keys(args, &t.s, j + BLOCK_KEYS, t.end, blocks + !current);
        if (!block->any)
            continue;
        pack_block(args, block->places, count, panels);
        for (int r = 0; r < t.used; r++) {
            __global int *ranks = room + 2 * r * width, *numbers = ranks + width;
            struct candidates *c = candidates + r;
            const int seen = clamp(c->seen - j, 0L, (long)count);
            score_block(args, &t, r, q + r * HEAD_ROWS * Q_ROW, weights + r * HEAD_ROWS, panels, j,
                        seen, block->present, next, c, ranks, numbers);
            if (c->count > most)
                c->count = select_largest(ranks, numbers, c->count, topk, &c->threshold);
        }
    }
    for (int r = 0; r < t.rows; r++) {
        __global int *ranks = room + 2 * r * width, *numbers = ranks + width;
        struct candidates *c = candidates + r;
        if (c->count > topk)
            c->count = select_largest(ranks, numbers, c->count, topk, &c->threshold);
        write_candidates(args, &t.s, t.first + r, t.split, ranks, numbers, c->count, 0, 1);
    }
}

/* ---- kernels -------------------------------------------------------------------------------- */

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
indexer_choose(PARAMETERS_indexer_choose)
{
    const struct indexer_arguments arguments = ARGUMENTS_indexer_choose, *const args = &arguments;
    const long tiles = (args->shape->seq_q + QUERIES - 1) / QUERIES;
    const long tasks = args->shape->batch * tiles * SPLITS;
    const long width = CANDIDATE_ROOM(args->shape->topk, args->shape->seq_kv);
    __global int *room = (__global int *)args->workspace + get_group_id(0) * (2 * QUERIES * width);

    configure_tiles();
    for (long task = get_group_id(0); task < tasks; task += GROUPS)
        choose_for_queries(args, task, room);
    release_tiles();
}

#if SPLITS > 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void indexer_merge(PARAMETERS_indexer_merge)
{
    const struct indexer_arguments arguments = ARGUMENTS_indexer_merge, *const args = &arguments;
    const long topk = args->shape->topk, seq_kv = args->shape->seq_kv, i = get_group_id(0);
    const struct sequence s = sequence_of(args, get_group_id(1));
    int threshold = INT_MIN;

    if (i >= s.rows)
        return;
    __global int *ranks = parts_of(args, &s, i), *numbers = ranks + PARTS_ROOM(topk, seq_kv);
    const long count =
        select_largest(ranks, numbers, SPLITS * LISTED(topk, seq_kv), topk, &threshold);
    write_list(args, &s, i, ranks, numbers, count, 0, 1);
}
#endif
