/* SPDX-License-Identifier: Apache-2.0 */
/* f32 as the sum of three parts of bf16, each the rest rounded to nearest even: 24 bits in all. A product of two
 * numbers is the sum of six products of parts, those (i, j) with i + j <= 2; what is left out is below 2^-25 of it.
 * An Inf or NaN is its first part. */
#pragma once
#include "common/storage.h"

/* The first part of x, which is finite if x is; *rest: what it leaves. */
static inline ushort take_part(const float x, float *rest)
{
    const bool finite = x * 0.0f == 0.0f;
    const ushort rounded = bf16_round(x);
    const ushort part =
        finite && (rounded & 0x7f80) == 0x7f80 ? (ushort)(as_uint(x) >> 16) : rounded;

    *rest = finite ? x - bf16_load(part) : 0.0f;
    return part;
}
