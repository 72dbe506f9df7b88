/* The first stage of gradients for GPUs: the statistics of rows (common/backward.h). ROW_LANES work-items share a row,
 * so that a sub-group reads whole lines of a cache. Of rows whose lse is large the group then adds up the weights,
 * ROWS_AT_ONCE rows at a time, a key of all of them a work-item: there are few such rows, if any, so that no tile of
 * them would be full.
 *
 * Before including this: backward_tile.h, tile_load.h, local_barrier.h; THREADS. */
#ifndef CLATTN_GPU_BACKWARD_ROWS_H
#define CLATTN_GPU_BACKWARD_ROWS_H

#define GROUP_ROWS (THREADS / ROW_LANES)
/* Elements that a work-item loads at once, of o and of do, whose dtypes may differ. */
#define PIECE                                                                                      \
    (O_DTYPE == DTYPE ? WIDTH(UNIT_O && UNIT_DO, DIM_V)                                            \
                      : UNIT_O && UNIT_DO && DIM_V % 4 == 0 ? 4 : 1)
#define ROWS_AT_ONCE 4

/* exp(s - lse) of query i and key j, whose product is known, in the steps of pair_gradient_of(); 0 if it is
 * hidden. */
INLINE float weight_of_pair(SHAPE_PARAMS, const struct tile t, const long i, const long j,
                            const float product, const float minus_lse SCORE_OPERANDS_PARAM)
{
    struct score_tile pair =
        score_tile_at(a, at, t.e, t.b, t.h, i, j, 1, 1, 1L SCORE_OPERANDS_ARG);

#if HAS_BLOCKS
    find_blocks(t.bits, i, j, &pair);
#endif
    struct score s = score_of(a, pair, 0, 0, product);
    return hide(a, pair, in_window(pair, 0, 0), 0, 0, &s) ? weight_of(s, minus_lse, 0.0f) : 0.0f;
}

/* Adds the weights of ROWS_AT_ONCE queries, counted from i0, and key j. */
INLINE void add_weights(SHAPE_PARAMS, const struct tile t, const int *rows, const long j,
                        const __global storage *q, const __global storage *k,
                        const float *minus_lse, float *sums SCORE_OPERANDS_PARAM)
{
    const __global storage *q_head = q + at.q + t.b * a.q_stride[0] + t.h * a.q_stride[1] + t.i0 * a.q_stride[2];
    const __global storage *key = k + at.k + t.b * a.k_stride[0] + t.h / a.group * a.k_stride[1] + j * a.k_stride[2];
    float products[ROWS_AT_ONCE] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int d = 0; d < DIM_QK; d++) {
        const float y = LOAD(key, d * K_STEP);
        for (int n = 0; n < ROWS_AT_ONCE; n++)
            products[n] = MULTIPLY_ADD(LOAD(q_head, rows[n] * a.q_stride[2] + d * Q_STEP), y, products[n]);
    }
    for (int n = 0; n < ROWS_AT_ONCE; n++)
        sums[n] += weight_of_pair(a, at, t, t.i0 + rows[n], j, products[n],
                                  minus_lse[n] SCORE_OPERANDS_ARG);
}

/* This work-item's part of dot(do[i], o[i]): neighbours in a row read neighbouring pieces. */
INLINE float part_of_delta(SHAPE_PARAMS, const long b, const long h, const long i, const int lane,
                           const __global o_storage *o, const __global storage *d_o)
{
    const __global o_storage *const o_row =
        o + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];
    const __global storage *const d_o_row =
        d_o + at.d_o + b * a.d_o_stride[0] + h * a.d_o_stride[1] + i * a.d_o_stride[2];
    const bool aligned = rows_aligned_of(O_DTYPE, o_row, 0, PIECE) && rows_aligned(d_o_row, 0, PIECE);
    float4 sums = 0.0f;

    for (int d = lane * PIECE; d < DIM_V; d += ROW_LANES * PIECE) {
        const struct piece x = load_piece(O_DTYPE, o_row + d * O_STEP, PIECE, aligned);
        const struct piece y = load_piece(DTYPE, d_o_row + d * DO_STEP, PIECE, aligned);
        sums = fma(x.low, y.low, sums);
        sums = fma(x.high, y.high, sums);
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}

/* Groups of GROUP_ROWS rows, heads, batches. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void backward_rows(PARAMETERS_backward_rows)
{
    ENTER_SEQUENCE(get_group_id(2));
    __local float deltas[ROW_LANES][GROUP_ROWS];
    __local float partial[THREADS][ROWS_AT_ONCE];
    __local int large[GROUP_ROWS]; /* rows of the group, in any order */
    __local int count;             /* of these */
    const int item = get_local_id(0), row = item / ROW_LANES, lane = item % ROW_LANES;
    struct tile t;

    t.b = get_group_id(2);
    t.h = get_group_id(1);
    t.i0 = get_group_id(0) * GROUP_ROWS;
    LEAVE_IF_BEYOND(t.i0, a.seq_q);
    t.e = extent_of(a, at, t.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    t.queries = (int)clamp(t.e.queries - t.i0, 0L, (long)GROUP_ROWS);
    find_head(a, at, workspace, &t);
    if (item == 0)
        count = 0;
    deltas[lane][row] =
        part_of_delta(a, at, t.b, t.h, min(t.i0 + row, a.seq_q - 1), lane, o, d_o);
    LOCAL_BARRIER(); /* the parts are complete, and no row is counted yet */
    if (item < GROUP_ROWS && t.i0 + item < a.seq_q) {
        float delta = 0.0f;
        for (int n = 0; n < ROW_LANES; n++)
            delta += deltas[n][item];
        if (is_large_lse(write_statistics(a, at, t.b, t.h, t.i0 + item, lse, delta, workspace)))
            large[atomic_inc(&count)] = item;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    LOCAL_BARRIER(); /* all are, and statistics are written */
    for (int first = 0; first < count; first += ROWS_AT_ONCE) {
        float sums[ROWS_AT_ONCE], minus_lse[ROWS_AT_ONCE];
        int rows[ROWS_AT_ONCE];
        for (int n = 0; n < ROWS_AT_ONCE; n++) {
            rows[n] = large[min(first + n, count - 1)];
            minus_lse[n] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + rows[n]).s0;
            sums[n] = 0.0f;
        }
        for (long j = first_key(a, t.e, t.i0) + item; j < end_key_of_queries(a, t); j += THREADS)
            add_weights(a, at, t, rows, j, q, k, minus_lse, sums SCORE_OPERANDS_ARG);
        LOCAL_BARRIER(); /* what was there may be overwritten */
        for (int n = 0; n < ROWS_AT_ONCE; n++)
            partial[item][n] = sums[n];
        LOCAL_BARRIER(); /* all parts are complete */
        if (item < ROWS_AT_ONCE && first + item < count) {
            const long i = t.i0 + large[first + item];
            float sum = 0.0f;
            for (int n = 0; n < THREADS; n++)
                sum += partial[n][item];
#if HAS_SINKS
            sum += exp(sinks[at.sinks + t.h] - lse[at.lse + lse_of(a, t.b, t.h, i)]);
#endif
            write_missing(a, at, t.b, t.h, i, sum, workspace);
        }
    }
    END_KERNEL();
}

#endif
