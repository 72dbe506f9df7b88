/* Scores as vectors: their unit, and biases and masks of one query at consecutive keys. */
#ifndef CLATTN_LANE_SCORES_H
#define CLATTN_LANE_SCORES_H
#include "cpu/lanes.h"

#define ROUNDED(n) (((n) + SIMD_WIDTH - 1) / SIMD_WIDTH * SIMD_WIDTH)

/* Scores are kept in units of log 2, so that 2^x serves as the exponential; with a bias in natural
 * units, since a bias of -FLT_MAX must stay finite. */
#if HAS_BIAS
#define UNIT 1.0f
#define SCORE_TO_LOG 1.0f
#define EXPONENTIAL(x) exponential2((x) * LOG2E)
#else
#define UNIT LOG2E
#define SCORE_TO_LOG LN2
#define EXPONENTIAL(x) exponential2(x)
#endif
#define HAS_WINDOW (HAS_WINDOW_LEFT || HAS_WINDOW_RIGHT)
#define HIDES_ANYWHERE (HAS_BIAS || HAS_MASK)
#define HIDES (HAS_WINDOW || HIDES_ANYWHERE)
/* Whether scores change between the product and the softmax even in a tile that hides nothing. */
#define CHANGES_SCORES (HAS_SOFTCAP || HAS_BIAS || HAS_MASK || HAS_ALIBI)

#if HAS_BIAS
/* left biases of one query, at most SIMD_WIDTH. */
INLINE lanes load_biases(const __global bias_storage *p, const long step, const int left)
{
    float x[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH) {
#if BIAS_DTYPE == DTYPE_F32
        return VECTOR(vload)(0, p);
#elif BIAS_DTYPE == DTYPE_F16
        return load_halves((const __global ushort *)p);
#else
        return VECTOR(as_float)(VECTOR(convert_uint)(VECTOR(vload)(0, p)) << 16);
#endif
    }
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? LOAD_BIAS(p, c * step) : 0.0f;
    return VECTOR(vload)(0, x);
}
#endif

#if HAS_MASK
/* left bytes of one query, at most SIMD_WIDTH, as floats. */
INLINE lanes load_mask(const __global uchar *p, const long step, const int left)
{
    float x[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH)
        return VECTOR(convert_float)(VECTOR(vload)(0, p));
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? p[c * step] : 0.0f;
    return VECTOR(vload)(0, x);
}
#endif

/* From products (with softcap: scaled alone) of query i and keys j .., one a lane, to scores after
 * softcap, bias, ALiBi and mask; -INFINITY where bias or mask hide a key. Keys from `left` on, and
 * those that lengths and windows hide, have any score. */
INLINE lanes finish_scores(SHAPE_PARAMS, lanes x, const long b, const long h, const long i,
                           const long j, const long diagonal,
                           const int left BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
#if HAS_SOFTCAP
    x = hyperbolic_tangent(x * min(1.0f / a.softcap, FLT_MAX)) * (a.softcap * UNIT);
#endif
#if HAS_BIAS
    const lanes extra = load_biases(bias + at.bias + b * a.bias_stride[0] + h * a.bias_stride[1] +
                                        i * a.bias_stride[2] + j * a.bias_stride[3],
                                    a.bias_stride[3], left);
    x = extra == -INFINITY ? (lanes)(-INFINITY) : x + extra;
#endif
#if HAS_ALIBI
    x = fma((lanes)(slopes[at.slopes + h] * UNIT), COUNT_UP + (float)(j - i - diagonal), x);
#endif
#if HAS_MASK
    const lanes seen = load_mask(mask + at.mask + b * a.mask_stride[0] + h * a.mask_stride[1] +
                                     i * a.mask_stride[2] + j * a.mask_stride[3],
                                 a.mask_stride[3], left);
    x = seen == 0.0f ? (lanes)(-INFINITY) : x;
#endif
    return x;
}

#endif
