/* How elements lie in memory: for each dtype its type, loads, stores and rounding, once, for all that take
 * one element, four or eight at a time. Vectors as wide as a CPU's registers have loads of their own
 * (cl/cpu), matrix instructions their operands (cl/mma), quantized keys and values their blocks
 * (common/quantized.h).
 *
 *   storage, bias_storage, o_storage   the types of an element
 *   STORAGE_BYTES
 *   LOAD(p, n)              element n as a float; LOAD_BIAS and LOAD_O likewise
 *   STORE(x, p, n)          rounds to nearest even; STORE_BIAS and STORE_O likewise
 *   LOAD4(p), STORE4(x, p)  four neighbours, of any alignment; STORE_O4 likewise
 *   load4(), load8()        four and eight neighbours, by one load if they are aligned to it
 *
 * Defined by the host: DTYPE, BIAS_DTYPE, HAS_O_F32. */
#ifndef CLATTN_STORAGE_H
#define CLATTN_STORAGE_H

#define DTYPE_F32 0
#define DTYPE_F16 1
#define DTYPE_BF16 2

/* What is written as one type and read as another passes through a vector or as_type(): compilers
 * may hold a load of a scalar for apart from stores of scalars of other types (C99 6.5), one of halves
 * for apart from that of the word that they are in; of vectors LLVM assumes nothing. */

static inline float bf16_load(const ushort x) { return as_float((uint)x << 16); }

/* Rounds to nearest even; a NaN stays a NaN. */
static inline ushort bf16_round(const float x)
{
    const uint u = as_uint(x);
    return x != x ? (ushort)(u >> 16 | 0x40u) : (ushort)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* ---- an element ----------------------------------------------------------------------------- */

#if DTYPE == DTYPE_F32
typedef float storage;
#define STORAGE_BYTES 4
#define LOAD(p, n) ((p)[n])
#define LOAD4(p) vload4(0, p)
#define STORE(x, p, n) ((p)[n] = (x))
#define STORE4(x, p) vstore4(x, 0, p)
#elif DTYPE == DTYPE_F16
typedef half storage;
#define STORAGE_BYTES 2
#define LOAD(p, n) vload_half((size_t)(n), (p))
#define LOAD4(p) vload_half4(0, p)
#define STORE(x, p, n) vstore_half_rte((x), (size_t)(n), (p))
#define STORE4(x, p) vstore_half4_rte(x, 0, p)
#elif DTYPE == DTYPE_BF16
typedef ushort storage;
#define STORAGE_BYTES 2
#define LOAD(p, n) bf16_load((p)[n])
#define LOAD4(p) as_float4(convert_uint4(vload4(0, p)) << 16)
#define STORE(x, p, n) ((p)[n] = bf16_round(x))
#define STORE4(value, p)                                                                           \
    vstore4((ushort4)(bf16_round((value).x), bf16_round((value).y), bf16_round((value).z),         \
                      bf16_round((value).w)), 0, p)
#else
#error "DTYPE must be defined by the host"
#endif

#if BIAS_DTYPE == DTYPE_F32
typedef float bias_storage;
#define LOAD_BIAS(p, n) ((p)[n])
#define STORE_BIAS(x, p, n) ((p)[n] = (x))
#elif BIAS_DTYPE == DTYPE_F16
typedef half bias_storage;
#define LOAD_BIAS(p, n) vload_half((size_t)(n), (p))
#define STORE_BIAS(x, p, n) vstore_half_rte((x), (size_t)(n), (p))
#else
typedef ushort bias_storage;
#define LOAD_BIAS(p, n) bf16_load((p)[n])
#define STORE_BIAS(x, p, n) ((p)[n] = bf16_round(x))
#endif

/* o, which may be f32 beside another dtype. */
#if HAS_O_F32
typedef float o_storage;
#define LOAD_O(p, n) ((p)[n])
#define STORE_O(x, p, n) ((p)[n] = (x))
#define STORE_O4(x, p) vstore4(x, 0, p)
#else
typedef storage o_storage;
#define LOAD_O LOAD
#define STORE_O STORE
#define STORE_O4 STORE4
#endif

/* ---- neighbours ----------------------------------------------------------------------------- */

#if DTYPE == DTYPE_F16
/* The two halves of a word. Wide loads are of words, since some compilers make those of halves one
 * by one, even by vloada_half8. Vectors are not put together from smaller ones, over which Oclgrind
 * 21.10 falls. */
static inline float2 halves(const uint word)
{
    const ushort2 pair = as_ushort2(word); /* a vector: see above */
    return vload_half2(0, (const half *)&pair);
}
#endif

/* Four elements at once; where rows are not aligned one at a time, not by vload4: compilers would
 * make one branch of the two, with the weaker alignment. */
static inline float4 load4(const __global storage *p, const bool aligned)
{
    if (!aligned)
        return (float4)(LOAD(p, 0), LOAD(p, 1), LOAD(p, 2), LOAD(p, 3));
#if DTYPE == DTYPE_F32
    return *(const __global float4 *)p;
#elif DTYPE == DTYPE_F16
    const uint2 words = *(const __global uint2 *)p;
    const float2 a = halves(words.x), b = halves(words.y);
    return (float4)(a.x, a.y, b.x, b.y);
#else
    return as_float4(convert_uint4(*(const __global ushort4 *)p) << 16);
#endif
}

#if DTYPE != DTYPE_F32
static inline float8 load8(const __global storage *p, const bool aligned)
{
    if (!aligned)
        return (float8)(LOAD(p, 0), LOAD(p, 1), LOAD(p, 2), LOAD(p, 3), LOAD(p, 4), LOAD(p, 5),
                        LOAD(p, 6), LOAD(p, 7));
#if DTYPE == DTYPE_F16
    const uint4 words = *(const __global uint4 *)p;
    const float2 a = halves(words.x), b = halves(words.y), c = halves(words.z), d = halves(words.w);
    return (float8)(a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y);
#else
    return as_float8(convert_uint8(*(const __global ushort8 *)p) << 16);
#endif
}
#endif

#endif
