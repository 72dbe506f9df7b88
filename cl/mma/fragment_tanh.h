/* SPDX-License-Identifier: Apache-2.0 */
/* tanh of the scores of a fragment, by NVIDIA's instructions where they are there. */
#pragma once
#include "mma/fragment.h"
#include "score/tanh.h"

INLINE float fragment_tanh(const float x)
{
    float denominator;
    const float numerator =
        score_tanh_quotient(within_or_nan(x, MOST_OF_TANH_QUOTIENT), &denominator);

    return numerator * approximate_reciprocal(denominator);
}
