/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors in memory: the table of dtypes for CPUs. Each has a load and a store of SIMD_WIDTH
 * neighbours, however they are aligned; common/storage.h has those of single elements. */
#pragma once
#include "cpu/simd.h"

/* ---- f32 ------------------------------------------------------------------------------------ */

#define LOAD_F32(p) VECTOR(vload)(0, (p))
#define STORE_F32(x, p) VECTOR(vstore)((x), 0, (p))

/* ---- f16 ------------------------------------------------------------------------------------ */

/* PoCL 3.1's vload_half faults on unaligned halves, and its conversions do not read memory. Halves
 * are therefore read by vload where the conversion can be named. */
INLINE lanes load_halves(const __global ushort *p)
{
    if (CONVERTS_HALVES)
        return lanes_of_halves(VECTOR(vload)(0, p));
    return VECTOR(vload_half)(0, (const __global half *)p);
}

#if SIMD_WIDTH == 16
#define STORE_HALVES vstore_half16_rte
#elif SIMD_WIDTH == 8
#define STORE_HALVES vstore_half8_rte
#else
#define STORE_HALVES vstore_half4_rte
#endif

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

    STORE_HALVES(x, 0, (half *)&y);
    store_ushorts(y, p);
}

#define LOAD_F16(p) load_halves((const __global ushort *)(p))
#define STORE_F16(x, p) store_halves((x), (__global ushort *)(p))

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

#define LOAD_BF16(p) bf16_load_lanes(VECTOR(vload)(0, (p)))
#define STORE_BF16(x, p) store_ushorts(bf16_round_lanes(x), (p))

/* ---- by dtype ------------------------------------------------------------------------------- */

#define LOAD_VECTOR_OF_0 LOAD_F32
#define LOAD_VECTOR_OF_1 LOAD_F16
#define LOAD_VECTOR_OF_2 LOAD_BF16
#define LOAD_VECTOR OF_DTYPE(LOAD_VECTOR_OF_, DTYPE)
#define LOAD_K_VECTOR OF_DTYPE(LOAD_VECTOR_OF_, K_DTYPE)
#define LOAD_V_VECTOR OF_DTYPE(LOAD_VECTOR_OF_, V_DTYPE)
#define LOAD_BIAS_VECTOR OF_DTYPE(LOAD_VECTOR_OF_, BIAS_DTYPE)
#define STORE_VECTOR_OF_0 STORE_F32
#define STORE_VECTOR_OF_1 STORE_F16
#define STORE_VECTOR_OF_2 STORE_BF16
#define STORE_VECTOR OF_DTYPE(STORE_VECTOR_OF_, DTYPE)
#define STORE_O_VECTOR OF_DTYPE(STORE_VECTOR_OF_, O_DTYPE)

/* Loads masks, which have a byte a pair. */
#define LOAD_MASK_VECTOR(p) VECTOR(convert_float)(VECTOR(vload)(0, (p)))

/* ---- rows, which may end before a vector does ----------------------------------------------- */

/* Defines a function that loads `left` values from p on, at most SIMD_WIDTH; zeros after them. value: that of column c. */
#define DEFINE_LOAD_ROW(name, type, value, load_vector)                                            \
    INLINE lanes name(const __global type *p, const long step, const int left)                     \
    {                                                                                              \
        float x[SIMD_WIDTH];                                                                       \
                                                                                                   \
        if (step == 1 && left >= SIMD_WIDTH)                                                       \
            return load_vector(p);                                                                 \
        for (int c = 0; c < SIMD_WIDTH; c++)                                                       \
            x[c] = c < left ? value : 0.0f;                                                        \
        return VECTOR(vload)(0, x);                                                                \
    }

DEFINE_LOAD_ROW(load_row, storage, load1_of(DTYPE, p, c *step), LOAD_VECTOR)
#if !K_CACHE
DEFINE_LOAD_ROW(load_key_row, k_storage, load1_of(K_DTYPE, p, c *step), LOAD_K_VECTOR)
#endif
#if !V_CACHE
DEFINE_LOAD_ROW(load_value_row, v_storage, load1_of(V_DTYPE, p, c *step), LOAD_V_VECTOR)
#endif
DEFINE_LOAD_ROW(load_biases, bias_storage, load1_of(BIAS_DTYPE, p, c *step), LOAD_BIAS_VECTOR)
DEFINE_LOAD_ROW(load_mask, uchar, p[c * step], LOAD_MASK_VECTOR)

INLINE void store_row(const lanes x, __global o_storage *p, const long step, const int left)
{
    float y[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH) {
        STORE_O_VECTOR(x, p);
        return;
    }
    VECTOR(vstore)(x, 0, y);
    for (int c = 0; c < min(left, SIMD_WIDTH); c++)
        store1_of(O_DTYPE, y[c], p, c * step);
}

/* ---- keys and values as f32 ------------------------------------------------------------------ */

/* Products read keys and values in memory or from copies. Copies are f32 (of f16, bf16 and
 * quantized tensors; with STAGE_KV of all), or pairs with OPERAND_PAIRS (cpu/fused_operands.h,
 * bf16/fused_operands.h). A kernel that defines STAGE_PAGES also gathers paged keys and values by
 * copies. */
#ifndef STAGE_KV /* only fused_cpu has this tunable */
#define STAGE_KV 0
#endif
#if K_DTYPE == DTYPE_F32 && V_DTYPE == DTYPE_F32 && !K_CACHE && !V_CACHE &&                        \
    !(PAGE_SIZE && defined(STAGE_PAGES)) && !STAGE_KV
#define STAGED 0
typedef const __global float *source;
#define K_COLUMN k_step(args)
#define V_COLUMN v_step(args)
#else
#define STAGED 1
#if OPERAND_PAIRS
typedef const uint *source;
#else
typedef const float *source;
#endif
#define K_COLUMN 1
#if OPERAND_TILES /* values are transposed: bf16/fused_operands.h */
#define V_COLUMN (BLOCK_N / 2)
#else
#define V_COLUMN 1
#endif

#define DEFINE_STAGE_ROW(name, type, value, load_vector)                                           \
    INLINE void name(float *to, const __global type *p, const long step, const int dim)            \
    {                                                                                              \
        if (step == 1 && dim >= SIMD_WIDTH) {                                                      \
            for (int d = 0; d < dim; d += SIMD_WIDTH) {                                            \
                const int at = min(d, dim - SIMD_WIDTH); /* the last vectors overlap */            \
                VECTOR(vstore)(load_vector(p + at), 0, to + at);                                   \
            }                                                                                      \
        } else {                                                                                   \
            for (int c = 0; c < dim; c++)                                                          \
                to[c] = value;                                                                     \
        }                                                                                          \
    }

#if !K_CACHE
DEFINE_STAGE_ROW(stage_key_row, k_storage, load1_of(K_DTYPE, p, c *step), LOAD_K_VECTOR)
#endif
#if !V_CACHE
DEFINE_STAGE_ROW(stage_value_row, v_storage, load1_of(V_DTYPE, p, c *step), LOAD_V_VECTOR)
#endif
#endif
