/* The first stage of gradients for CPUs: a work-item has a row, and reads it from end to end.
 *
 * Before including this: backward.h. */
#ifndef CLATTN_CPU_BACKWARD_ROWS_H
#define CLATTN_CPU_BACKWARD_ROWS_H

/* dot(do[i], o[i]), in four sums: a sum waits for its last product. */
static inline float row_delta(SHAPE_PARAMS, const long b, const long h, const long i,
                              const __global storage *restrict o,
                              const __global storage *restrict d_o)
{
    float4 sums = 0.0f;

    o += at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];
    d_o += at.d_o + b * a.d_o_stride[0] + h * a.d_o_stride[1] + i * a.d_o_stride[2];
    for (int d = 0; d < DIM_V / 4 * 4; d += 4) {
        const float4 x = (float4)(LOAD(o, d * O_STEP), LOAD(o, (d + 1) * O_STEP),
                                  LOAD(o, (d + 2) * O_STEP), LOAD(o, (d + 3) * O_STEP));
        const float4 y = (float4)(LOAD(d_o, d * DO_STEP), LOAD(d_o, (d + 1) * DO_STEP),
                                  LOAD(d_o, (d + 2) * DO_STEP), LOAD(d_o, (d + 3) * DO_STEP));
        sums = fma(x, y, sums);
    }
    for (int d = DIM_V / 4 * 4; d < DIM_V; d++)
        sums.x = fma(LOAD(o, d * O_STEP), LOAD(d_o, d * DO_STEP), sums.x);
    return (sums.x + sums.y) + (sums.z + sums.w);
}

/* Global (seq_q or more, heads, batch). */
__kernel void backward_rows(PARAMETERS_backward_rows)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    ENTER_SEQUENCE(b);

    if (i >= a.seq_q)
        return;
    /* Of results only those that are written may be f32. */
    store_statistic(a, at, b, h, i, lse,
                    row_delta(a, at, b, h, i, (const __global storage *)o, d_o), workspace);
}

#endif
