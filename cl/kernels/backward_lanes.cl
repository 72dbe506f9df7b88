/* backward_lanes: dq, dk and dv in one pass over the pairs, for CPUs. Formulas: clattn/problem.h.
 *
 * Stages     backward_rows    delta = dot(do, o) of each row, and -lse, into the workspace
 *            backward_lanes   local (1, 1, 1), global (SPLIT_K, kv_heads, batch): one work-item has
 *                             every SPLIT_K-th chunk of BLOCKS_PER_TILE blocks of BLOCK_N keys of
 *                             one kv head, and all queries that see them, of all query heads of
 *                             that head. dk and dv stay with it; its share of dq goes to sums of
 *                             its own in the workspace
 *            backward_bias    dbias: the scores once more, summed over what the bias broadcasts
 *                             over
 *            backward_sum     dq from the SPLIT_K sums, dslopes, dsinks
 *            Each sum is formed in an order that depends on nothing but the problem and the
 *            tunables: the same inputs give the same bits.
 * Lanes      are keys: an element of q or do is broadcast to all lanes and multiplied with
 *            BLOCK_VECTORS vectors of keys or values, so that only the block's k and v and its dk
 *            and dv are transposed. In dq the lanes are columns.
 * Tiles      of at most BLOCK_M queries, copied once for all blocks of a chunk, since caches near
 *            the core do not hold all of a head: scores, weights, their gradients, then the three
 *            sums. Queries that see no key of the chunk are in no tile; those of a tile that see no
 *            key of a block are left out; where all queries see all of its keys no mask is looked
 *            at. Sums of dq are added to where they are, DQ_ROWS rows at a time.
 * Ragged     Nothing outside the tensors is read: keys beyond the last are zeros.
 * Speed      as fused_lanes.cl: never build it with fast-math options.
 * Workspace  [rows][2] -lse in the scores' unit and -delta; [SPLIT_K][batch][heads][seq_q +
 *            DQ_ROWS] [ROW_QK] sums of dq; [SPLIT_K][batch][heads] sums of dslopes
 * Tunables   src/families/tunables/backward_lanes.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "common/common.h"

#if !defined(SIMD_WIDTH) || !defined(BLOCK_VECTORS) || !defined(QK_ROWS) ||                        \
    !defined(DKV_COLUMNS) || !defined(BLOCK_M) || !defined(DQ_ROWS) || !defined(DQ_VECTORS) ||     \
    !defined(BLOCKS_PER_TILE) || !defined(SPLIT_K)
#error "backward_lanes.cl must be built with all of its tunables defined"
#endif

#define ROW_QK ROUNDED(DIM_QK)
#define ROW_V ROUNDED(DIM_V)
#include "score/lane_weights.h"
#if HAS_DBIAS
#include "cpu/lane_bias.h"
#endif

/* Of one range's sums of dq: the first row of head h. After each head are rows that no query has,
 * since sums are read and written DQ_ROWS rows at a time. */
INLINE long sum_row(const struct attention_shape a, const long b, const long h)
{
    return (b * a.heads + h) * (a.seq_q + DQ_ROWS);
}

/* Where a range's sums of dq begin in the workspace, on a line of the cache if that does; those of
 * dslopes where range SPLIT_K would. */
INLINE long sums_begin(const struct attention_shape a, const long range)
{
    const long stats = (2 * a.batch * a.heads * a.seq_q + 15) / 16 * 16;

    return stats + range * a.batch * a.heads * (a.seq_q + DQ_ROWS) * ROW_QK;
}

/* What rows of a tile add to dv and dk. */
NOINLINE void add_to_block(const struct tile *tile, const struct rows rows, struct block *block)
{
    add_rows(DIM_V, tile->p, (const float *)tile->d_o, ROW_V, rows.begin, rows.end, block->dv);
    add_rows(DIM_QK, tile->ds, (const float *)tile->q, ROW_QK, rows.begin, rows.end, block->dk);
}

/* What some rows of a tile, all where it hides nothing, add to dk, dv and dq. */
INLINE void add_tile(const int hides, SHAPE_PARAMS, const struct place place, struct block *block,
                     const struct rows rows, struct tile *tile, __global float *dq,
                     lanes *slope_sums BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const int hidden = weigh_tile(hides, 0, a, at, place, block, rows, tile,
                                  slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
    const float *q = (const float *)tile->q, *d_o = (const float *)tile->d_o;

    if (hides && hidden && tile->nonfinite) {
        add_visible_rows(DIM_V, tile->p, tile->p, d_o, ROW_V, rows.begin, rows.end, block->dv);
        add_visible_rows(DIM_QK, tile->p, tile->ds, q, ROW_QK, rows.begin, rows.end, block->dk);
    } else {
        add_to_block(tile, rows, block);
    }
    if (hides && block->nonfinite) /* which a weight of 0 would not keep from other rows */
        add_visible_queries((const float *)tile->p, (const float *)tile->ds,
                            (const float *)block->k_rows, block->keys, rows.begin, rows.end, dq);
    else
        add_queries((const float *)tile->ds, block->k_rows, block->keys, rows.begin, rows.end, dq);
}

/* A range of the keys of one kv head. */
NOINLINE void compute_range(SHAPE_PARAMS, const long range, const long kv_head,
                            struct place place, const __global storage *restrict q,
                            const __global storage *restrict k,
                            const __global storage *restrict v BIAS_PARAM MASK_PARAM SLOPES_PARAM,
                            const __global storage *restrict d_o, __global storage *restrict dk,
                            __global storage *restrict dv, __global float *restrict workspace)
{
    const long all_blocks = (a.seq_kv + BLOCK_N - 1) / BLOCK_N,
               chunks = (all_blocks + BLOCKS_PER_TILE - 1) / BLOCKS_PER_TILE;
    struct block blocks[BLOCKS_PER_TILE];
    struct tile tile;

    const __global float *stats = workspace + at.workspace;
    __global float *sums = workspace + at.workspace + sums_begin(a, range);
    __global float *slope_totals =
        workspace + at.workspace + sums_begin(a, SPLIT_K) + (range * a.batch + place.b) * a.heads;
    const long first_head = kv_head * a.group, end_head = first_head + a.group;
    for (long n = sum_row(a, place.b, first_head) * ROW_QK;
         n < sum_row(a, place.b, end_head) * ROW_QK; n++)
        sums[n] = 0.0f;
#if HAS_DSLOPES
    for (long h = first_head; h < end_head; h++)
        slope_totals[h] = 0.0f;
#endif
    /* There and back, so that under a causal mask all ranges have the same work. */
    for (long turn = 0; turn * SPLIT_K < chunks; turn++) {
        const long chunk = turn * SPLIT_K + (turn % 2 ? SPLIT_K - 1 - range : range);
        const int count =
            (int)clamp(all_blocks - chunk * BLOCKS_PER_TILE, 0L, (long)BLOCKS_PER_TILE);
        if (count == 0)
            continue;
        place.h = first_head;
        for (int n = 0; n < count; n++) {
            struct block *block = blocks + n;
            open_block(a, at, place, (chunk * BLOCKS_PER_TILE + n) * BLOCK_N, k, v, block);
            for (int d = 0; d < ROW_QK * BLOCK_VECTORS; d++)
                block->dk[d] = 0.0f;
            for (int d = 0; d < ROW_V * BLOCK_VECTORS; d++)
                block->dv[d] = 0.0f;
        }
        const struct block *last = blocks + count - 1;
        const int keys = (int)max(0L, min(place.e.keys, last->j + BLOCK_N) - blocks->j);
        const long begin = first_query(a, place.e, blocks->j);
        const long end = end_query(a, place.e, blocks->j, keys);
        for (; place.h < end_head; place.h++) {
            lanes slope_sums = 0.0f;
            for (long i = begin; i < end; i += BLOCK_M) {
                __global float *dq = sums + (sum_row(a, place.b, place.h) + i) * ROW_QK;
                open_tile(a, at, place, i, (int)min(end - i, (long)BLOCK_M), q, d_o, stats, &tile);
                for (int n = 0; n < count; n++) {
                    struct block *block = blocks + n;
                    const struct rows rows = seeing_rows(a, place.e, block, &tile);
                    if (rows.begin < rows.end)
                        add_tile(tile_hides(a, place.e, block, &tile), a, at, place, block, rows,
                                 &tile, dq, &slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
                }
            }
#if HAS_DSLOPES
            slope_totals[place.h] += sum_lanes(slope_sums);
#endif
        }
        place.h = first_head;
        for (int n = 0; n < count; n++)
            close_block(a, at, place, blocks + n, dk, dv);
    }
    (void)slope_totals;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void backward_lanes(PARAMETERS_backward_lanes)
{
    const long range = get_global_id(0), kv_head = get_global_id(1);
    struct place place;

    place.b = get_global_id(2);
    place.h = kv_head * a.group;
    place.e = extent_of(a, at, place.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    compute_range(a, at, range, kv_head, place, q, k, v BIAS_ARG MASK_ARG SLOPES_ARG, d_o, dk, dv,
                  workspace);
}

/* Global (seq_q, heads, batch): a row of dq. */
__kernel void backward_sum(PARAMETERS_backward_sum)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    const __global float *sums = workspace + at.workspace + (sum_row(a, b, h) + i) * ROW_QK;

    dq += at.dq + b * a.dq_stride[0] + h * a.dq_stride[1] + i * a.dq_stride[2];
    for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
        lanes sum = VECTOR(vload)(0, sums + sums_begin(a, 0) + d);
        for (long range = 1; range < SPLIT_K; range++)
            sum += VECTOR(vload)(0, sums + sums_begin(a, range) + d);
        store_row(sum * a.scale, dq + d * DQ_STEP, DQ_STEP, DIM_QK - d);
    }
}

#if HAS_DSLOPES || HAS_DSINKS
/* Global (heads): what is summed over batches and rows, in their order. */
__kernel void backward_heads(PARAMETERS_backward_heads)
{
    const long h = get_global_id(0);
    const __global float *rows = workspace + at.workspace;
    const __global float *totals = rows + sums_begin(a, SPLIT_K);
    float sum = 0.0f;

#if HAS_DSLOPES
    for (long n = 0; n < SPLIT_K * a.batch; n++)
        sum += totals[n * a.heads + h];
    dslopes[at.dslopes + h] = sum;
#endif
#if HAS_DSINKS
    sum = 0.0f;
    for (long b = 0; b < a.batch; b++) {
        for (long i = 0; i < a.seq_q; i++) {
            const long row = row_of(a, b, h, i);
            sum += sink_term(sinks[at.sinks + h], lse[at.lse + row], rows[2 * row + 1]);
        }
    }
    dsinks[at.dsinks + h] = sum;
#endif
}
#endif
