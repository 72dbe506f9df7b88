/* SPDX-License-Identifier: Apache-2.0 */
/* Elements in memory: types, loads, stores and rounding for each dtype, for code that takes one
 * element, four or eight at a time. Vectors as wide as a CPU's registers have loads of their own
 * (cl/cpu), matrix instructions their operands (cl/mma), quantized keys and values their blocks
 * (common/quantized.h).
 *
 *   storage, bias_storage, o_storage   the types of an element
 *   STORAGE_OF(dtype)       the type of an element of a dtype, which must be a macro for 0, 1 or 2, not an
 *                           expression
 *   load1_of(), load4_of(), load8_of(), store1_of(), store4_of()   of an element, or of four or eight neighbours, by
 *                           one load if they are aligned to it. The dtype is an argument that is a constant once
 *                           inlined: DTYPE, K_DTYPE, V_DTYPE, BIAS_DTYPE or O_DTYPE. Stores round to nearest even.
 *
 * Defined by the host: DTYPE, BIAS_DTYPE, HAS_O_F32; K_DTYPE and V_DTYPE where there are keys and
 * values. */
#pragma once

#define DTYPE_F32 0
#define DTYPE_F16 1
#define DTYPE_BF16 2

/* Values that are written as one type and read as another pass through a vector or as_type():
 * compilers may take loads of one scalar type as independent of stores of others (C99 6.5), halves
 * and words included; for vectors LLVM assumes nothing. */

static inline float bf16_load(const ushort x)
{
    return as_float((uint)x << 16);
}

/* Rounds to nearest even; a NaN stays a NaN. */
static inline ushort bf16_round(const float x)
{
    const uint u = as_uint(x);
    return x != x ? (ushort)(u >> 16 | 0x40u) : (ushort)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* ---- an element of a dtype ------------------------------------------------------------------ */

#define JOINED(name, dtype) name##dtype
#define OF_DTYPE(name, dtype) JOINED(name, dtype)

#define STORAGE_OF(dtype) OF_DTYPE(STORAGE_OF_, dtype)
#define STORAGE_OF_0 float
#define STORAGE_OF_1 half
#define STORAGE_OF_2 ushort
/* Element n of a tensor of a dtype (constant), and the number of bytes in an element. */
static inline int bytes_of(const int dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}
static inline const __global void *place_of(const int dtype, const __global void *p, const long n)
{
    return (const __global uchar *)p + n * bytes_of(dtype);
}

static inline float load1_of(const int dtype, const __global void *p, const long n)
{
    if (dtype == DTYPE_F32)
        return ((const __global float *)p)[n];
    if (dtype == DTYPE_F16)
        return vload_half((size_t)n, (const __global half *)p);
    return bf16_load(((const __global ushort *)p)[n]);
}

static inline void store1_of(const int dtype, const float x, __global void *p, const long n)
{
    if (dtype == DTYPE_F32)
        ((__global float *)p)[n] = x;
    else if (dtype == DTYPE_F16)
        vstore_half_rte(x, (size_t)n, (__global half *)p);
    else
        ((__global ushort *)p)[n] = bf16_round(x);
}

static inline void store4_of(const int dtype, const float4 x, __global void *p)
{
    if (dtype == DTYPE_F32)
        vstore4(x, 0, (__global float *)p);
    else if (dtype == DTYPE_F16)
        vstore_half4_rte(x, 0, (__global half *)p);
    else
        vstore4((ushort4)(bf16_round(x.x), bf16_round(x.y), bf16_round(x.z), bf16_round(x.w)), 0,
                (__global ushort *)p);
}

/* ---- an element of a tensor ------------------------------------------------------------------ */

#ifndef DTYPE
#error "DTYPE must be defined by the host"
#elif !defined(K_DTYPE) /* programs of projections do not define it */
#define K_DTYPE DTYPE
#define V_DTYPE DTYPE
#endif
#if HAS_O_F32
#define O_DTYPE 0
#else
#define O_DTYPE DTYPE
#endif
typedef STORAGE_OF(DTYPE) storage;
typedef STORAGE_OF(O_DTYPE) o_storage;
typedef STORAGE_OF(BIAS_DTYPE) bias_storage;

/* ---- neighbours ----------------------------------------------------------------------------- */

/* The two halves of a word. Wide loads are of words, since some compilers split loads of halves,
 * even vloada_half8. Vectors are not built from smaller ones: Oclgrind 21.10 crashes on that. */
static inline float2 halves(const uint word)
{
    const ushort2 pair = as_ushort2(word); /* a vector: see above */
    return vload_half2(0, (const half *)&pair);
}

/* Loads four elements at once. Where rows are not aligned they are loaded one at a time, not by
 * vload4: compilers would make one branch of the two, with the weaker alignment. */
static inline float4 load4_of(const int dtype, const __global void *p, const bool aligned)
{
    if (!aligned)
        return (float4)(load1_of(dtype, p, 0), load1_of(dtype, p, 1), load1_of(dtype, p, 2),
                        load1_of(dtype, p, 3));
    if (dtype == DTYPE_F32)
        return *(const __global float4 *)p;
    if (dtype == DTYPE_F16) {
        const uint2 words = *(const __global uint2 *)p;
        const float2 a = halves(words.x), b = halves(words.y);
        return (float4)(a.x, a.y, b.x, b.y);
    }
    return as_float4(convert_uint4(*(const __global ushort4 *)p) << 16);
}

/* Loads four neighbours of any alignment. */
static inline float4 vload4_of(const int dtype, const __global void *p)
{
    if (dtype == DTYPE_F32)
        return vload4(0, (const __global float *)p);
    if (dtype == DTYPE_F16)
        return vload_half4(0, (const __global half *)p);
    return as_float4(convert_uint4(vload4(0, (const __global ushort *)p)) << 16);
}

static inline float4 load4(const __global storage *p, const bool aligned)
{
    return load4_of(DTYPE, p, aligned);
}

/* Loads eight elements; not for f32. */
static inline float8 load8_of(const int dtype, const __global void *p, const bool aligned)
{
    if (!aligned)
        return (float8)(load1_of(dtype, p, 0), load1_of(dtype, p, 1), load1_of(dtype, p, 2),
                        load1_of(dtype, p, 3), load1_of(dtype, p, 4), load1_of(dtype, p, 5),
                        load1_of(dtype, p, 6), load1_of(dtype, p, 7));
    if (dtype == DTYPE_F16) {
        const uint4 words = *(const __global uint4 *)p;
        const float2 a = halves(words.x), b = halves(words.y), c = halves(words.z),
                     d = halves(words.w);
        return (float8)(a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y);
    }
    return as_float8(convert_uint8(*(const __global ushort8 *)p) << 16);
}
