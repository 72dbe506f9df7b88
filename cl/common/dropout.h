/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout factors of weights, for the kernel's problem. Lanes are those of philox.h. */
#pragma once
#include "common/common.h"
#include "common/philox.h"

INLINE void factors_of_words(const struct arguments *args, const words *drawn, factors *x)
{
#pragma unroll
    for (int n = 0; n < 4; n++)
        x[n] = drawn[n] < args->shape->drop_below ? (factors)0.0f : (factors)args->shape->keep;
}

/* x[n] is the factor, 0 or args->shape->keep, of query i and key 4 * j4 + n. Lanes may differ in
 * i, in j4 or in both, but are of one head, whose number bh dropout_head() returns. */
INLINE void dropout_factors(const struct arguments *args, const uint bh, const words i,
                            const words j4, factors *x)
{
    words counter[4] = {j4 + (uint)args->call->dropout_j / 4, i + (uint)args->call->dropout_i,
                        (words)bh, (words)(uint)args->call->stream};

    philox(counter, args->call->seed);
    factors_of_words(args, counter, x);
}

/* Like dropout_factors(), for lanes that differ in i alone. */
INLINE void dropout_factors_of_key(const struct arguments *args, const uint bh, const words i,
                                   const uint j4, factors *x)
{
    words counter[4];

    philox_of_row(j4 + (uint)args->call->dropout_j / 4, i + (uint)args->call->dropout_i, bh,
                  (uint)args->call->stream, args->call->seed, counter);
    factors_of_words(args, counter, x);
}
