/* The first stage of gradients for GPUs: ROW_LANES work-items share a row, of which neighbours read neighbouring pieces, so
 * that a sub-group reads whole lines of a cache.
 *
 * Before including this: backward.h, tile_load.h; THREADS. */
#ifndef CLATTN_GPU_BACKWARD_ROWS_H
#define CLATTN_GPU_BACKWARD_ROWS_H

/* The host counts with it (src/families/backward_sizes.c). */
#define ROW_LANES (THREADS < 8 ? THREADS : 8)
#define GROUP_ROWS (THREADS / ROW_LANES)
#define PIECE WIDTH(UNIT_O && UNIT_DO, DIM_V)

/* This work-item's part of dot(do, o) of a row. */
INLINE float4 part_of_delta(const __global storage *o, const long o_step,
                            const __global storage *d_o, const long d_o_step, const bool aligned)
{
    float4 sums = 0.0f;

    for (int first = 0; first < DIM_V; first += ROW_LANES * PIECE) {
        const int d = first + THIS_THREAD % ROW_LANES * PIECE;
        if (d >= DIM_V)
            break;
        const struct piece x = load_piece(DTYPE, o + d * o_step, PIECE, aligned);
        const struct piece y = load_piece(DTYPE, d_o + d * d_o_step, PIECE, aligned);
        sums = fma(x.low, y.low, sums);
        sums = fma(x.high, y.high, sums);
    }
    return sums;
}

/* Groups of GROUP_ROWS rows, heads, batches. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void backward_rows(PARAMETERS_backward_rows)
{
    ENTER_SEQUENCE(get_group_id(2));
    __local float parts[THREADS]; /* of the first lane of each row, then of the second ... */
    const long h = get_group_id(1), b = get_group_id(2), first = get_group_id(0) * GROUP_ROWS;
    const int row = THIS_THREAD / ROW_LANES, lane = THIS_THREAD % ROW_LANES;

    LEAVE_IF_BEYOND(first, a.seq_q);
    const long i = min(first + row, a.seq_q - 1);
    /* Of results only those that are written may be f32. */
    const __global storage *const o_row = (const __global storage *)o + at.o + b * a.o_stride[0] +
                                          h * a.o_stride[1] + i * a.o_stride[2];
    const __global storage *const d_o_row =
        d_o + at.d_o + b * a.d_o_stride[0] + h * a.d_o_stride[1] + i * a.d_o_stride[2];
    const bool aligned = rows_aligned(o_row, 0, PIECE) && rows_aligned(d_o_row, 0, PIECE);
    const float4 sums = part_of_delta(o_row, O_STEP, d_o_row, DO_STEP, aligned);
    parts[lane * GROUP_ROWS + row] = (sums.x + sums.y) + (sums.z + sums.w);
    LOCAL_BARRIER(); /* the parts are complete */
    if (get_local_id(0) < GROUP_ROWS && first + get_local_id(0) < a.seq_q) {
        float delta = 0.0f;
        for (int n = 0; n < ROW_LANES; n++)
            delta += parts[n * GROUP_ROWS + get_local_id(0)];
        store_statistic(a, at, b, h, first + get_local_id(0), lse, delta, workspace);
    }
}

#endif
