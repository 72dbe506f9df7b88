/* SPDX-License-Identifier: Apache-2.0 */
/* Softcapped scores of a fragment, where the built-in tanh would take more time than the products.
 *
 * tanh(x) is x p(x^2) / q(x^2) to 22 u of its value (u = 2^-24), which the inputs' 16 bits leave far
 * behind: p and q of degree 3 are a minimax approximation on |x| <= 7, and beyond that x stays 7. A division
 * takes a reciprocal of the unit that also computes exponentials, so four scores of one row share it. A NaN
 * passes through x alone, and does not reach the others' q.
 *
 * Where all scores of a sub-group's tile are within half of the cap, as most are in models, a polynomial of
 * degree 3 in x^2 takes a third of the instructions, to 10 u.
 *
 * A part of fragment_attention.h, which includes it. */
#pragma once
#include "mma/fragment_tanh.h"

/* 1: the inputs' 16 bits leave these approximations far behind. Else fragment_tanh() computes each score, whose bits then do
 * not depend on other scores, as an invariant problem wants it. */
#define QUICK_TANH (HAS_COPIES && DTYPE != DTYPE_F32 && HAS_STRICT == 0 && HAS_INVARIANT == 0)

enum { TANH_IN_FOURS = KEY_TILES % 2 == 0 ? QUICK_TANH : 0 };

#define MOST_OF_TANH 7.0f
/* Returns the numerator of tanh(x), and in *denominator its q. */
INLINE float tanh_fraction(const float x, float *denominator)
{
    const float z = fmin(x * x, MOST_OF_TANH * MOST_OF_TANH);
    const float p = fma(fma(fma(3.995888070e-06f, z, 2.293093185e-03f), z, 1.232206017e-01f), z,
                        9.999989674e-01f);

    *denominator =
        fma(fma(fma(1.439848917e-04f, z, 2.115163556e-02f), z, 4.565462015e-01f), z, 1.0f);
    return within_or_nan(x, MOST_OF_TANH) * p;
}

/* Replaces products, each x / factor, by softcap * tanh(x), for |x| <= MOST_OF_SMALL_TANH. */
INLINE void cap_small_products(const float softcap, const float factor[LANE_QUERIES],
                               float s[KEY_SUMS])
{
    UNROLL
    for (int n = 0; n < KEY_SUMS; n++)
        s[n] = small_score_tanh(softcap, s[n] * factor[sum_query(n % TILE_SUMS)]);
}

/* The same for any x. */
INLINE void cap_any_products(const float softcap, const float factor[LANE_QUERIES],
                             float s[KEY_SUMS])
{
    if (!TANH_IN_FOURS) {
        UNROLL
        for (int n = 0; n < KEY_SUMS; n++)
            s[n] = softcap * fragment_tanh(s[n] * factor[sum_query(n % TILE_SUMS)]);
        return;
    }
    UNROLL
    for (int first = 0; first < KEY_SUMS; first += 2 * TILE_SUMS)
        UNROLL
    for (int here = 0; here < LANE_QUERIES; here++) {
        float numerators[4], denominators[4];
#define SUM_AT(n)                                                                                  \
    (first + (n) / 2 * TILE_SUMS + 2 * here + (n) % 2) /* two sums of a row in each tile */
        UNROLL
        for (int n = 0; n < 4; n++)
            numerators[n] = tanh_fraction(s[SUM_AT(n)] * factor[here], &denominators[n]);
        const float low = denominators[0] * denominators[1],
                    high = denominators[2] * denominators[3];
        const float all = softcap * approximate_reciprocal(low * high);
        UNROLL
        for (int n = 0; n < 4; n++)
            s[SUM_AT(n)] = numerators[n] * (denominators[n ^ 1] * (all * (n < 2 ? high : low)));
    }
}

/* Replaces products by softcap * tanh(scale * product / softcap). */
INLINE void cap_products(const float softcap, const float scale[LANE_QUERIES], float s[KEY_SUMS])
{
    float factor[LANE_QUERIES], highest[2] = {0.0f, 0.0f};
    bool small = QUICK_TANH;

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        factor[n] = scale[n] * approximate_reciprocal(softcap);
    UNROLL
    for (int n = 0; n < KEY_SUMS; n++) /* two chains, as in finish_fragment_scores() */
        highest[n % 2] = fmax(highest[n % 2], fabs(s[n]));
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        small = small && fmax(highest[0], highest[1]) * fabs(factor[n]) <= MOST_OF_SMALL_TANH;
    if (QUICK_TANH) {
        if (!any_in_sub_group(!small)) {
            cap_small_products(softcap, factor, s);
            return;
        }
    }
    cap_any_products(softcap, factor, s);
}
