/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors in memory: the table of dtypes for CPUs. Each has a load and a store of SIMD_WIDTH
 * neighbours, however they are aligned; common/storage.h has those of single elements. */
#pragma once
#include "cpu/simd.h"

/* ---- f16 ------------------------------------------------------------------------------------ */

/* PoCL 3.1's vload_half faults on unaligned halves, and its conversions do not read memory. Halves
 * are therefore read by vload where the conversion can be named. */
INLINE lanes load_halves(const __global ushort *p)
{
    if (CONVERTS_HALVES)
        return lanes_of_halves(VECTOR(vload)(0, p));
    return VECTOR(vload_half)(0, (const __global half *)p);
}

/* Stores 16-bit values at any alignment: PoCL's vstore() stores them one by one. */
struct __attribute__((packed)) unaligned_ushorts {
    ushorts x;
};

INLINE void store_ushorts(const ushorts x, __global ushort *p)
{
    ((__global struct unaligned_ushorts *)p)->x = x;
}

/* Uses an aligned variable: PoCL 3.1 assumes that p is aligned where it knows the value of x. */
INLINE void store_halves(const lanes x, __global ushort *p)
{
    ushorts y;

    VECTOR_RTE(vstore_half)(x, 0, (half *)&y);
    store_ushorts(y, p);
}

/* ---- bf16 ----------------------------------------------------------------------------------- */

INLINE lanes bf16_load_lanes(const ushorts x)
{
    return VECTOR(as_float)(VECTOR(convert_uint)(x) << 16);
}

/* Rounds to nearest even; a NaN stays a NaN. */
INLINE ushorts bf16_round_lanes(const lanes x)
{
    const VECTOR(uint) u = VECTOR(as_uint)(x);
    const VECTOR(uint) nan = u >> 16 | 0x40u;
    const VECTOR(uint) rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return VECTOR(convert_ushort)(x != x ? nan : rounded);
}

/* ---- by dtype ------------------------------------------------------------------------------- */

/* The dtype is an argument that is a constant once inlined, as in common/storage.h. */
INLINE lanes load_lanes(const int dtype, const __global void *p)
{
    if (dtype == DTYPE_F32)
        return VECTOR(vload)(0, (const __global float *)p);
    if (dtype == DTYPE_F16)
        return load_halves(p);
    return bf16_load_lanes(VECTOR(vload)(0, (const __global ushort *)p));
}

INLINE void store_lanes(const int dtype, const lanes x, __global void *p)
{
    if (dtype == DTYPE_F32)
        VECTOR(vstore)(x, 0, (__global float *)p);
    else if (dtype == DTYPE_F16)
        store_halves(x, p);
    else
        store_ushorts(bf16_round_lanes(x), p);
}

/* ---- rows, which may end before a vector does ----------------------------------------------- */

/* Loads `left` values from p on, at most SIMD_WIDTH; zeros after them. */
INLINE lanes load_row_of(const int dtype, const __global void *p, const long step, const int left)
{
    float x[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH)
        return load_lanes(dtype, p);
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? load1_of(dtype, p, c * step) : 0.0f;
    return VECTOR(vload)(0, x);
}

INLINE lanes load_row(const __global storage *p, const long step, const int left)
{
    return load_row_of(DTYPE, p, step, left);
}

/* The same of masks, which have a byte a pair. */
INLINE lanes load_mask(const __global uchar *p, const long step, const int left)
{
    float x[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH)
        return VECTOR(convert_float)(VECTOR(vload)(0, p));
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? p[c * step] : 0.0f;
    return VECTOR(vload)(0, x);
}

INLINE void store_row(const lanes x, __global o_storage *p, const long step, const int left)
{
    float y[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH) {
        store_lanes(O_DTYPE, x, p);
        return;
    }
    VECTOR(vstore)(x, 0, y);
    for (int c = 0; c < min(left, SIMD_WIDTH); c++)
        store1_of(O_DTYPE, y[c], p, c * step);
}

/* Copies a row of dim values. */
INLINE void stage_row(const int dtype, float *to, const __global void *p, const long step,
                      const int dim)
{
    if (step == 1 && dim >= SIMD_WIDTH) {
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            const int at = min(d, dim - SIMD_WIDTH); /* the last vectors overlap */
            VECTOR(vstore)(load_lanes(dtype, place_of(dtype, p, at)), 0, to + at);
        }
    } else {
        for (int c = 0; c < dim; c++)
            to[c] = load1_of(dtype, p, c * step);
    }
}
