/* From a product to a score: softcap, bias, ALiBi and masks, in the order that clattn/problem.h
 * sets. Scalar, one (query, key) at a time, but for SOFTCAPPED(). */
#ifndef CLATTN_SCORE_H
#define CLATTN_SCORE_H
#include "common/common.h"

/* s, a float or a vector of them, after softcap; `a` is the attention_shape in scope. The built-in
 * tanh keeps small scores exact to a few ulp, where 1 - 2 / (exp(2x) + 1) would cancel. */
#if HAS_SOFTCAP
#define SOFTCAPPED(s) (a.softcap * tanh((s) / a.softcap))
#else
#define SOFTCAPPED(s) (s)
#endif

/* Whether query i sees key j, where first = first_key() and end = end_key() of query i. */
static inline bool visible(SHAPE_PARAMS, const long first, const long end, const long b,
                           const long h, const long i, const long j BIAS_PARAM MASK_PARAM)
{
    if (j < first || j >= end)
        return false;
#if HAS_MASK
    if (!mask[at.mask + b * a.mask_stride[0] + h * a.mask_stride[1] + i * a.mask_stride[2] +
              j * a.mask_stride[3]])
        return false;
#endif
#if HAS_BIAS
    if (LOAD_BIAS(bias, at.bias + b * a.bias_stride[0] + h * a.bias_stride[1] +
                            i * a.bias_stride[2] + j * a.bias_stride[3]) == -INFINITY)
        return false;
#endif
    return true;
}

/* The final score of query i and key j, from s = scale * dot after softcap; -INFINITY if masked,
 * whatever s is. first and end as for visible(). Reads nothing beyond the batch's lengths. */
static inline float biased_score(SHAPE_PARAMS, const struct extent e, const long first,
                                 const long end, const long b, const long h, const long i,
                                 const long j, float s BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    if (!visible(a, at, first, end, b, h, i, j BIAS_ARG MASK_ARG))
        return -INFINITY;
#if HAS_BIAS
    s += LOAD_BIAS(bias, at.bias + b * a.bias_stride[0] + h * a.bias_stride[1] +
                             i * a.bias_stride[2] + j * a.bias_stride[3]);
#endif
#if HAS_ALIBI
    s += slopes[at.slopes + h] * (float)(j - i - e.diagonal);
#endif
    return s;
}

#endif
