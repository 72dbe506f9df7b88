/* What kernels of the backward direction share: steps, and where things lie in the workspace. Defined by the host besides what common.cl lists:
 *   UNIT_DO UNIT_DQ UNIT_DK UNIT_DV    1: the innermost stride is 1
 *   HAS_DBIAS HAS_DSLOPES HAS_DSINKS   0 or 1
 * Before including this: UNIT, what scores are multiplied with. */
#ifndef CLATTN_BACKWARD_H
#define CLATTN_BACKWARD_H
#include "common/common.h"
#include "common/sequence.h"

#if UNIT_DO
#define DO_STEP 1
#else
#define DO_STEP a.d_o_stride[3]
#endif
#if UNIT_DQ
#define DQ_STEP 1
#else
#define DQ_STEP a.dq_stride[3]
#endif
#if UNIT_DK
#define DK_STEP 1
#else
#define DK_STEP a.dk_stride[3]
#endif
#if UNIT_DV
#define DV_STEP 1
#else
#define DV_STEP a.dv_stride[3]
#endif

/* (b, h, i) counted as rows of the workspace, and as lse is packed. */
static inline long row_of(const struct attention_shape a, const long b, const long h, const long i)
{
    return (b * a.heads + h) * LONGEST_Q(a) + i;
}

static inline long lse_of(const struct attention_shape a, const long b, const long h, const long i)
{
    return LSE_HEAD(a, b * a.heads + h, h) + i;
}

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

/* Queries [first_query, end_query) hold all that may see one of the keys j .. j + keys - 1, which
 * are in use, by lengths, window and causality. */
static inline long first_query(const struct attention_shape a, const struct extent e, const long j)
{
#if HAS_WINDOW_RIGHT
    return clamp(j - e.diagonal - a.window_right, 0L, e.queries);
#else
    return 0;
#endif
}

static inline long end_query(const struct attention_shape a, const struct extent e, const long j,
                             const int keys)
{
    if (keys == 0)
        return 0;
#if HAS_WINDOW_LEFT
    return clamp(j + keys - e.diagonal + a.window_left, 0L, e.queries);
#else
    return e.queries;
#endif
}

/* A row's part in the gradient of its head's sink. One that sees nothing has no weights, the sink's
 * neither. */
static inline float sink_term(const float sink, const float lse, const float minus_delta)
{
    return lse == -INFINITY ? 0.0f : exp(sink - lse) * minus_delta;
}

/* Global (seq_q or more, heads, batch): -lse, in the unit of the scores, and -delta of each row,
 * into the workspace's first floats. Where all that a row sees has a score of -inf its weights are
 * 0. */
__kernel void backward_rows(PARAMETERS_backward_rows)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    ENTER_SEQUENCE(b);

    if (i >= a.seq_q)
        return;
    const float base = lse[at.lse + lse_of(a, b, h, i)] * UNIT;
    workspace += at.workspace + 2 * row_of(a, b, h, i);
    workspace[0] = base == -INFINITY ? base : -base;
    /* Of results only those that are written may be f32. */
    workspace[1] = -row_delta(a, at, b, h, i, (const __global storage *)o, d_o);
}

#endif
