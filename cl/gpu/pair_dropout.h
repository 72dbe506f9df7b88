/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout on GPUs: the declaration of a tile's bits in local memory, and the factor of a single pair. */
#pragma once
#include "common/dropout.h"

/* Declares `kept`, the bits in local memory that say which weights of a tile dropout keeps. Without dropout it is null. */
#if HAS_DROPOUT
#define DECLARE_KEPT(bytes) __local uchar kept[bytes]
#else
#define DECLARE_KEPT(bytes) __local uchar *const kept = 0
#endif

/* The dropout factor of a pair's weight. */
static inline float dropout_factor(const struct arguments *args, const long b, const long h,
                                   const long i, const long j)
{
    float x[4];

    if (!HAS_DROPOUT)
        return 1.0f;
    dropout_factors(args, dropout_head(args, b, h), (uint)i, (uint)(j / 4), x);
    const int n = (int)(j % 4); /* an index known only here would put the array into memory */
    return n < 2 ? (n == 0 ? x[0] : x[1]) : (n == 2 ? x[2] : x[3]);
}
