/* SPDX-License-Identifier: Apache-2.0 */
/* split_cpu: o = softmax(scale q k^T, masked) v, and lse, for few queries and many keys, on CPUs:
 * split-K, also called Flash-Decoding.
 *
 *   split    partial results of a range of keys, for all rows of a kv head: o, row_max, row_sum; with SPLIT_K of 1 o and lse
 *   combine  o and lse from the partial results of each row, in the order of the ranges
 *
 * Rows       are the queries of all query heads that share a kv head, so that K and V are read once
 *            for BLOCK_M of them.
 * NDRange    local (1, 1, 1); split: global (batch, kv_heads / KV_HEADS, parts * blocks of BLOCK_M rows), so
 *            that neighbours are of batches of any length; combine: global (seq_q, heads, batch).
 * SIMD lanes of o and v are columns, of scores and weights keys, of row_max rows; of the
 *            accumulators of Q K^T: cl/cpu/split_qk.h.
 * Tiles      of at most BLOCK_N keys: scores to private memory, online softmax, values. All rows
 *            take their turn at a few keys, or columns of the tile's values, while those are in L1.
 *            With STAGE_K keys that must be converted are staged right after the weights of the tile before,
 *            so that this overlaps with the exponentials' latency. Else each register tile converts them as it reads them,
 *            which overlaps with waiting for memory. Values are staged by the first rows that read them.
 * Prefetch   While scores are computed, the tile's values are fetched, and later keys while values
 *            are added, so that memory and arithmetic work at the same time.
 * Quantized  A tile's scales are converted first, as vectors: those of K multiply the elements that are
 *            read, those of V the weights, which are fewer.
 * Parts      SPLIT_K, or of INVARIANT_PART_KEYS keys with HAS_INVARIANT: then a key that a query does not see
 *            changes none of its sums, whose tiles begin at multiples of BLOCK_N, which the host fixes.
 * Workspace  (parts, batch, heads, seq_q) results of PART floats: o, row_max, row_sum.
 * Dropout    comes after row_sum.
 * Ragged     Nothing outside the tensors is read: the last vector of columns overlaps the one
 *            before, scores beyond the last key repeat its and are ignored, as are rows beyond the
 *            last.
 * Units      vector: floats. pairs, amx: products of bf16 pairs (cl/bf16/pairs.h), or by tiles of a matrix unit
 *            (cl/bf16/tiles.h), for several rows that share a kv head: q, k and v as they are stored, weights
 *            rounded to bf16, which a problem of standard precision allows. Numbers in a format of bytes are exact in bf16;
 *            their scales multiply scores and weights. The host also defines EMULATE.
 * Tunables   src/families/split_cpu/split_cpu.def or split_cpu_pairs.def, all defined by the host; no fallbacks here. */
#include "common/common.h"
#include "families/units.h"
#if OPERAND_PAIRS
#if !defined(EMULATE)
#error "a kernel that multiplies pairs must be built with EMULATE defined"
#endif
#if (DTYPE != DTYPE_BF16 && !(UNIT == UNIT_AMX && DTYPE == DTYPE_F16)) ||                          \
    (!K_CACHE && K_DTYPE != DTYPE) || (!V_CACHE && V_DTYPE != DTYPE) || HAS_STRICT
#error                                                                                             \
    "pairs are of q, k and v in bf16, with AMX in f16 too, or of k and v in blocks, of standard precision"
#endif
#define SIMD_WIDTH 16
#define KV_HEADS 1
enum { STAGES_K = 1 };
#else
/* Is 1 if a tile's keys are staged as f32. With STAGE_K that holds for keys that must be converted. It also holds for
 * keys that are read a few columns at a time, unless these form a vector. */
enum {
    CONVERTS_K = K_CACHE ? 1 : K_DTYPE != DTYPE_F32,
    IN_VECTORS = UNIT_K ? DIM_QK % SIMD_WIDTH == 0 : 0,
    STAGES_K = CONVERTS_K              ? STAGE_K ? 1 : QK_DEPTH < SIMD_WIDTH
               : QK_DEPTH < SIMD_WIDTH ? !IN_VECTORS
                                       : 0
};
#endif
#if !defined(SIMD_WIDTH) || !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(PREFETCH_TILES) ||  \
    !defined(SPLIT_K) || !defined(KV_HEADS) ||                                                     \
    (!OPERAND_PAIRS && (!defined(QK_ROWS) || !defined(QK_DEPTH) || !defined(STAGE_K) ||            \
                        !defined(PV_ROWS) || !defined(PV_VECTORS)))
#error "split_cpu.cl must be built with all of its tunables defined"
#endif

#include "common/sequence.h"
#include "families/invariant_sizes.h"
#include "families/operand_sizes.h"
#include "families/split_cpu/split_cpu_sizes.h"
#include "cpu/split_pages.h"
#include "cpu/split_pv.h"
#include "cpu/split_qk.h"
#include "score/split_softmax.h"
#include "cpu/split_seen.h"

/* The number of ranges that the keys are divided into. */
INLINE long count_parts(const struct arguments *args)
{
    return HAS_INVARIANT
               ? max((longest_kv(args) + INVARIANT_PART_KEYS - 1) / INVARIANT_PART_KEYS, 1L)
               : SPLIT_K;
}

enum { PART = ROUNDED(DIM_V) + 2 };

/* 1 if there are partial results in the workspace. */
#define COMBINES (SPLIT_K > 1 || HAS_INVARIANT)
/* The bits of block lists follow the partial results in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
    return COMBINES ? count_parts(args) * args->shape->batch * args->shape->heads *
                          longest_q(args) * PART
                    : 0;
}

#include "score/mark_blocks.h"
/* 1 if any tile may have masked pairs: a mask of the last keys masks none before these. */
INLINE bool all_tiles_partial(void)
{
    if (HIDES_BY_SCORE || HAS_MASK_FUNCTION || HAS_BLOCKS)
        return true;
    return HAS_MASK ? !HAS_MASK_KEYS : false;
}

/* ---- results -------------------------------------------------------------------------------- */

/* The greatest score of a row and the sum of weights relative to it; o is relative to the same. The row may have a sink. */
struct row_sums {
    float row_max, row_sum;
    bool sees_none; /* beside a large sink the row_sum may be 0 too */
};

/* The sink of a head, a score without a key. */
INLINE float sink_of(const struct arguments *args, const long h)
{
    return HAS_SINKS ? args->sinks[h] * SCORE_UNIT : -INFINITY;
}

/* What scores are subtracted from. */
INLINE float base_of(const float row_max)
{
    return row_max == -INFINITY ? 0.0f : row_max;
}

/* Stores o and lse of query i; row_max counts the sink, row_sum does not yet. */
INLINE void store_o_and_lse(const struct arguments *restrict args, const long b, const long h,
                            const long i, const struct row_sums sums, const lanes *o)
{
    __global o_storage *to = args->o + row_offset(args->shape->o_stride, b, h, i);
    float row_sum = sums.row_sum;

    if (HAS_SINKS)
        row_sum += exponential((lanes)(sink_of(args, h) - base_of(sums.row_max))).s0;
    const float scale = sums.sees_none ? 0.0f : unit_of_values() / row_sum;
    for (int c = 0; c < VECTORS(DIM_V); c++) {
        const int d = column_of(c, DIM_V);
        store_row(o[c] * scale, to + d * o_step(args), o_step(args), DIM_V - d);
    }
    if (HAS_LSE)
        args->lse[lse_head(args, b * args->shape->heads + h, h) + i] =
            sums.sees_none ? -INFINITY : FMA(sums.row_max, score_to_log(), log(row_sum));
}

/* Stores the results of a block's rows, which have seen all of their keys. */
NOINLINE void store_whole_rows(const struct arguments *args, const struct row_block *block,
                               lanes *o, const lanes *row_max, const lanes *row_sum)
{
    for (int r = 0; r < block->rows; r++) {
        const float own_max = ((const float *)row_max)[r], own_sum = sum_lanes(row_sum[r]);
        const float sink = sink_of(args, block->head[r]), most = sink > own_max ? sink : own_max;
        const lanes x = exponential((lanes)(own_max - base_of(most)));
        const float rescale = own_sum == 0.0f ? 0.0f : x.s0;
        lanes *row = o + r * VECTORS(DIM_V);
        for (int c = 0; HAS_SINKS && c < VECTORS(DIM_V); c++)
            row[c] *= rescale;
        store_o_and_lse(args, block->b, block->head[r], block->query[r],
                        (struct row_sums){most, own_sum * rescale, own_sum == 0.0f}, row);
    }
}

/* ---- split ---------------------------------------------------------------------------------- */

/* Stores the partial results of a block's rows; o of a range without keys is never read. */
INLINE void store_partial_rows(const struct arguments *args, const struct row_block *block,
                               const long part, const int has_keys, const lanes *o,
                               const lanes *row_max, const lanes *row_sum)
{
    for (int r = 0; r < block->rows; r++) {
        __global float *to =
            args->workspace +
            (((part * args->shape->batch + block->b) * args->shape->heads + block->head[r]) *
                 longest_q(args) +
             block->query[r]) *
                PART;
        for (int c = 0; c < VECTORS(DIM_V) && has_keys; c++)
            VECTOR(vstore)(o[r * VECTORS(DIM_V) + c], c, to);
        to[PART - 2] = ((const float *)row_max)[r];
        to[PART - 1] = sum_lanes(row_sum[r]);
    }
}

/* The state of a kv head's block of rows between tiles. */
struct row_state {
    lanes packed_q[PACKED_Q_VECTORS], o[O_VECTORS], row_sum[BLOCK_M];
    lanes row_max[ROW_VECTORS];
};

INLINE void start_rows(struct row_state *state)
{
    for (int r = 0; r < ROW_VECTORS; r++)
        state->row_max[r] = -INFINITY;
    for (int r = 0; r < BLOCK_M; r++)
        state->row_sum[r] = 0.0f;
    for (int n = 0; n < O_VECTORS; n++)
        state->o[n] = 0.0f;
}

/* Multiplies the products of rows and count keys with the keys' scales. */
INLINE void scale_products(const int rows, const int count, const lanes *k_scales, lanes *products)
{
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < (count + SIMD_WIDTH - 1) / SIMD_WIDTH; n++)
            products[r * (BLOCK_N / SIMD_WIDTH) + n] *= k_scales[n];
}

/* Sets the distance between kv heads in a key range, and its first head. */
#if KV_HEADS > 1
#define START_WITH_FIRST_HEAD(keys)                                                                \
    ((keys).k_head = k_place(args->k, args->shape->k_stride[1]) - args->k,                         \
     (keys).v_head = v_place(args->v, args->shape->v_stride[1]) - args->v, (keys).head = 0)
#else
#define START_WITH_FIRST_HEAD(keys) ((void)0)
#endif

/* Computes partial results of block number `index` of the rows of KV_HEADS kv heads, from the kv
 * head of `block` on, for range number `part` of their visible keys. The heads take turns at each
 * tile, in memory order if rows of all heads are adjacent. */
NOINLINE void compute_part(const struct arguments *restrict args, struct row_block block,
                           const long index, const long part)
{
    const int heads =
        (int)min((long)KV_HEADS, args->shape->heads / args->shape->group - block.kv_head);
    struct row_block blocks[KV_HEADS];
    struct row_state states[KV_HEADS];
    lanes rescale[ROW_VECTORS], scores[SCORE_VECTORS];
    float *s = (float *)scores;
    lanes scaled[SCALED_VECTORS];
    lanes staged[STAGED_K_VECTORS], v_scales[V_SCALE_VECTORS], k_scales[BLOCK_N / SIMD_WIDTH];
    long begin, end;
    int h = 0;

    for (; h < heads; h++) {
        blocks[h] = block;
        blocks[h].kv_head += h;
        find_block_rows(args, index, &blocks[h]);
        start_rows(&states[h]);
    }
    find_part_of_keys(blocks, part, &begin, &end);
    long j = next_tile_of_heads(args, blocks, heads, begin, begin, end);
    for (int r = 0; r < ROW_VECTORS; r++)
        rescale[r] = 0.0f;
    for (int n = 0; n < BLOCK_M * BLOCK_N; n++)
        s[n] = 0.0f; /* scores beyond the last key are read, though masked */
    for (h = 0; h < heads && j < end; h++)
#if OPERAND_PAIRS
        pack_query_pairs(args, &blocks[h], states[h].packed_q);
#else
        pack_queries(args, &blocks[h], states[h].packed_q);
#endif
    h = 0;
#if PAGE_SIZE
    struct row_list lists[ROW_LISTS ? 2 : 1];
    struct paged_keys all = {k_place(args->k, block.kv_head * args->shape->k_stride[1]),
                             v_place(args->v, block.kv_head * args->shape->v_stride[1]), block.b,
                             begin, end};
    START_WITH_FIRST_HEAD(all);
    struct key_range keys = tile_of_pages(args, all, j, (float *)v_scales, lists);
#else
    struct key_range keys = {
        k_place(args->k, row_offset(args->shape->k_stride, block.b, block.kv_head, j)),
        v_place(args->v, row_offset(args->shape->v_stride, block.b, block.kv_head, j)),
        k_place(args->k, args->shape->k_stride[2]) - args->k,
        v_place(args->v, args->shape->v_stride[2]) - args->v,
        end - j,
        (float *)v_scales};
    START_WITH_FIRST_HEAD(keys);
#endif
    if ((STAGES_K || (bool)K_CACHE) && keys.left > 0)
        stage_keys(args, keys, tile_keys(keys), staged);
    for (long soon; (j = tile_begin(keys, j)) < end; j = soon) {
        const int count = tile_keys(keys);
        const float *rescales = (const float *)rescale;
        struct row_block *own = &blocks[h];
        struct row_state *state = &states[h];
        int hidden = 0;
        multiply_qk(args, keys, count, own, staged, state->packed_q, s);
        if (HAS_K_SCALES) {
            load_row_scales(k_scales_from(args, own->b, own->kv_head, j), count, (float *)k_scales);
            scale_products(own->rows, count, k_scales, scores);
        }
        load_value_scales(args, own, j, keys, count);
        if ((PAGE_SIZE && count < BLOCK_N) || all_tiles_partial() || j < own->all_begin ||
            j + BLOCK_N > own->all_end)
            hidden =
                softmax_of_rows(1, args, own, j, count, s, state->row_max, state->row_sum, rescale);
        else
            softmax_of_rows(0, args, own, j, count, s, state->row_max, state->row_sum, rescale);
#if KV_HEADS > 1
        h = h + 1 < heads ? h + 1 : 0;
#endif
        soon = h ? j
                 : next_tile_of_heads(args, blocks, heads, begin, j + (PAGE_SIZE ? count : BLOCK_N),
                                      end);
#if PAGE_SIZE
#if KV_HEADS > 1
        all.head = h;
#endif
        const struct key_range next = tile_of_pages(
            args, all, soon, keys.v_scales, ROW_LISTS && keys.list == lists ? lists + 1 : lists);
#elif KV_HEADS > 1
        const struct key_range next =
            of_head(h ? keys : following(keys, SKIPS_TILES ? soon - j : BLOCK_N), h);
#else
        const struct key_range next = following(keys, SKIPS_TILES ? soon - j : BLOCK_N);
#endif
        if ((STAGES_K || (bool)K_CACHE) && next.left > 0)
            stage_keys(args, next, tile_keys(next), staged);
        if (hidden && holds_nonfinite(args, keys, count))
            add_visible_values(args, keys, count, own->rows, rescales, s, state->o);
        else
            multiply_pv(args, keys, count, own->rows, rescales, s, scaled, state->o);
        keys = next;
    }
    for (h = 0; h < heads; h++)
        if (COMBINES)
            store_partial_rows(args, &blocks[h], part, begin < end, states[h].o, states[h].row_max,
                               states[h].row_sum);
        else
            store_whole_rows(args, &blocks[h], states[h].o, states[h].row_max, states[h].row_sum);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void split(PARAMETERS_split)
{
    struct arguments arguments = ARGUMENTS_split;
    ENTER_SEQUENCE(args, &arguments, get_global_id(0));
    const long group = get_global_id(2);
    struct row_block block;

    block.b = get_global_id(0);
    LEAVE_IF_BEYOND(group / count_parts(args) * BLOCK_M, args->shape->group * args->shape->seq_q);
    block.kv_head = get_global_id(1) * KV_HEADS;
    block.e = extent_of(args, block.b);
    if (HAS_BLOCKS)
        block.bits = args->workspace + marks_begin(args);
    configure_tiles();
    compute_part(args, block, group / count_parts(args), group % count_parts(args));
    release_tiles();
}

/* ---- combine -------------------------------------------------------------------------------- */

#if COMBINES
/* Stores o and lse of query i. Partial results of ranges in which it sees no key have a row_sum
 * of 0, and perhaps no o. */
NOINLINE void combine_parts(const struct arguments *restrict args, const long b, const long h,
                            const long i)
{
    const long row = (b * args->shape->heads + h) * longest_q(args) + i;
    const long step = args->shape->batch * args->shape->heads * longest_q(args) * PART;
    const __global float *parts = args->workspace + row * PART;
    float row_max = sink_of(args, h), seen = 0.0f, row_sum = 0.0f;
    lanes o[VECTORS(DIM_V)];
    const long all = count_parts(args);

    for (int n = 0; n < all; n++)
        row_max = max_lanes((lanes)(parts[n * step + PART - 2]), row_max);
    const float base = base_of(row_max);
    for (int c = 0; c < VECTORS(DIM_V); c++)
        o[c] = 0.0f;
    for (int n = 0; n < all; n++) {
        const __global float *one = parts + n * step;
        const float part_sum = one[PART - 1];
        const lanes x = exponential((lanes)(one[PART - 2] - base));
        const float rescale = part_sum == 0.0f ? 0.0f : x.s0;
        seen += part_sum;
        row_sum = FMA(part_sum, rescale, row_sum);
        for (int c = 0; c < VECTORS(DIM_V) && part_sum != 0.0f; c++)
            o[c] = FMA(VECTOR(vload)(c, one), (lanes)(rescale), o[c]);
    }
    store_o_and_lse(args, b, h, i, (struct row_sums){row_max, row_sum, seen == 0.0f}, o);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void combine(PARAMETERS_combine)
{
    struct arguments arguments = ARGUMENTS_combine;
    ENTER_SEQUENCE(args, &arguments, get_global_id(2));
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);

    LEAVE_IF_BEYOND(i, args->shape->seq_q);
    combine_parts(args, b, h, i);
}
#endif
