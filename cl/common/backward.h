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

/* What the first stage, backward_rows, leaves of a row in the workspace's first floats: -lse, in the unit of the scores, and
 * -delta. Where all that a row sees has a score of -inf its weights are 0. */
static inline void store_statistic(SHAPE_PARAMS, const long b, const long h, const long i,
                                   const __global float *lse, const float delta,
                                   __global float *workspace)
{
    const float base = lse[at.lse + lse_of(a, b, h, i)] * UNIT;

    workspace += at.workspace + 2 * row_of(a, b, h, i);
    workspace[0] = base == -INFINITY ? base : -base;
    workspace[1] = -delta;
}

#endif
