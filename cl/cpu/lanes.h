/* Vectors, mostly of a query or a key a lane, and rows of storage as such vectors: what the kernels
 * for CPUs are written in. Needs SIMD_WIDTH (4, 8 or 16) and common.cl. */
#ifndef CLATTN_LANES_H
#define CLATTN_LANES_H
#include "common/common.h"

#define INLINE static inline __attribute__((always_inline))
/* PoCL compiles what is inlined in a kernel two or three times, for the launchers that it makes of
 * one, and LLVM's time grows faster than a function, above all in nested loops. So what a kernel
 * does stands in functions of their own, called once a tile or more seldom. They ask for no ids,
 * which would make PoCL inline them, and get vectors by pointers: how compilers pass them depends
 * on the instructions that there are. */
#define NOINLINE static __attribute__((noinline))
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1") /* where speed is not worth what compiling copies takes */
#define BY_EIGHTS _Pragma("unroll 8") /* where all at once is no faster */

/* Whether an instruction of this processor can be named, by clang's name for it. */
#if defined(__has_builtin) && !defined(__SPIR__)
#define CAN_NAME(builtin) __has_builtin(builtin)
#else
#define CAN_NAME(builtin) 0
#endif

/* ---- vectors of SIMD_WIDTH lanes ------------------------------------------------------------ */

/* Elements of two vectors, those of b counted on from those of a. In clang it is one instruction
 * from the start; of elements that are named one by one LLVM must find that out. */
#if defined(__has_builtin) && !defined(NO_SHUFFLEVECTOR)
#if __has_builtin(__builtin_shufflevector)
#define CHOOSE __builtin_shufflevector
#endif
#endif
#ifndef CHOOSE
#define CHOOSE(a, b, ...) shuffle2(a, b, (VECTOR(uint))(__VA_ARGS__))
#endif

/* PAIRS: the elements of the first or second half of a, each followed by b's. FOURS: likewise in
 * each four elements. BLOCKS: as PAIRS, of four elements each. */
#if SIMD_WIDTH == 16
#define LOG2_WIDTH 4
#define VECTOR(name) name##16
#define STORE_HALF_OF_LANES(x, p) vstore8((x), 0, (p))
#define STORE_QUARTER_OF_LANES(x, p) vstore4((x), 0, (p))
#define COUNT_UP (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define LOW_PAIRS(a, b) CHOOSE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_PAIRS(a, b) CHOOSE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_IN_FOURS(a, b) CHOOSE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH_IN_FOURS(a, b) CHOOSE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW_BLOCKS(a, b) CHOOSE(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23)
#define HIGH_BLOCKS(a, b) CHOOSE(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)
#elif SIMD_WIDTH == 8
#define LOG2_WIDTH 3
#define VECTOR(name) name##8
#define STORE_HALF_OF_LANES(x, p) vstore4((x), 0, (p))
#define STORE_QUARTER_OF_LANES(x, p) vstore2((x), 0, (p))
#define COUNT_UP (float8)(0, 1, 2, 3, 4, 5, 6, 7)
#define LOW_PAIRS(a, b) CHOOSE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_PAIRS(a, b) CHOOSE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_IN_FOURS(a, b) CHOOSE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_IN_FOURS(a, b) CHOOSE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_BLOCKS(a, b) CHOOSE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_BLOCKS(a, b) CHOOSE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define LOG2_WIDTH 2
#define VECTOR(name) name##4
#define STORE_HALF_OF_LANES(x, p) vstore2((x), 0, (p))
#define STORE_QUARTER_OF_LANES(x, p) (*(p) = (x))
#define COUNT_UP (float4)(0, 1, 2, 3)
#define LOW_PAIRS(a, b) CHOOSE(a, b, 0, 4, 1, 5)
#define HIGH_PAIRS(a, b) CHOOSE(a, b, 2, 6, 3, 7)
#define LOW_IN_FOURS(a, b) LOW_PAIRS(a, b)
#define HIGH_IN_FOURS(a, b) HIGH_PAIRS(a, b)
#endif
typedef VECTOR(float) lanes;
typedef VECTOR(int) ints;

/* In each four lanes of x[0..3] columns become rows. */
INLINE void transpose_fours(lanes *x)
{
    const lanes even_low = LOW_IN_FOURS(x[0], x[2]), odd_low = LOW_IN_FOURS(x[1], x[3]);
    const lanes even_high = HIGH_IN_FOURS(x[0], x[2]), odd_high = HIGH_IN_FOURS(x[1], x[3]);

    x[0] = LOW_IN_FOURS(even_low, odd_low);
    x[1] = HIGH_IN_FOURS(even_low, odd_low);
    x[2] = LOW_IN_FOURS(even_high, odd_high);
    x[3] = HIGH_IN_FOURS(even_high, odd_high);
}

/* Columns of x become rows: in each four, and then fours as elements. */
INLINE void transpose(lanes *x)
{
    UNROLL
    for (int r = 0; r < SIMD_WIDTH; r += 4)
        transpose_fours(x + r);
#if SIMD_WIDTH > 4
    UNROLL
    for (int stage = 2; stage < LOG2_WIDTH; stage++) { /* rotates (row, column)'s bits by one */
        lanes y[SIMD_WIDTH];
        UNROLL
        for (int c = 0; c < SIMD_WIDTH / 2; c++) {
            y[c / 4 * 8 + c % 4] = LOW_BLOCKS(x[c], x[c + SIMD_WIDTH / 2]);
            y[c / 4 * 8 + c % 4 + 4] = HIGH_BLOCKS(x[c], x[c + SIMD_WIDTH / 2]);
        }
        UNROLL
        for (int c = 0; c < SIMD_WIDTH; c++)
            x[c] = y[c];
    }
#endif
}

#include "cpu/lane_exponential.h"

/* tanh(x) for |x| <= 1: at most 2 ulp off. */
INLINE lanes small_tangent(const lanes x)
{
    const lanes z = x * x;
    lanes p = fma(z, (lanes)(1.05826405e-3f), (lanes)(-6.259338e-3f));
    p = fma(z, p, (lanes)(2.03597583e-2f));
    p = fma(z, p, (lanes)(-5.34987077e-2f));
    p = fma(z, p, (lanes)(0.133264095f));
    p = fma(z, p, (lanes)(-0.333329856f));
    return x * fma(z, p, (lanes)(1.0f));
}

/* tanh(x) as a quotient of polynomials, of which this returns the upper one: at most 3 ulp off, and
 * 1 from 8.7 on. A NaN stays one, but the lower one is a positive number always. */
INLINE lanes tangent_quotient(const lanes x, lanes *below)
{
    const lanes low = (lanes)(-8.7f) > x ? (lanes)(-8.7f) : x;
    const lanes y = (lanes)(8.7f) < low ? (lanes)(8.7f) : low;
    const lanes square = y * y;
    const lanes z = square < (lanes)(75.7f) ? square : (lanes)(75.7f);
    lanes p = fma(z, (lanes)(1.39620777e-8f), (lanes)(2.10437593e-5f));
    lanes q = fma(z, (lanes)(8.02389309e-7f), (lanes)(3.32875672e-4f));
    p = fma(z, p, (lanes)(3.52193858e-3f));
    q = fma(z, q, (lanes)(2.59772241e-2f));
    p = fma(z, p, (lanes)(0.134032145f));
    q = fma(z, q, (lanes)(0.467365384f));
    p = fma(z, p, (lanes)(1.0f));
    *below = fma(z, q, (lanes)(1.0f));
    return y * p;
}

INLINE lanes hyperbolic_tangent(const lanes x)
{
    lanes below;
    const lanes above = tangent_quotient(x, &below);

    return above / below;
}

/* Of two at once and times factor: the one division takes as long as all else. */
INLINE void hyperbolic_tangents(lanes *x, lanes *y, const float factor)
{
    lanes below_x, below_y;
    const lanes above_x = tangent_quotient(*x, &below_x);
    const lanes above_y = tangent_quotient(*y, &below_y);
    const lanes r = (lanes)(factor) / (below_x * below_y);

    *x = above_x * (below_y * r);
    *y = above_y * (below_x * r);
}

INLINE int any_lane(const ints x)
{
#if SIMD_WIDTH == 16
    const int8 y = x.lo | x.hi;
    const int4 z = y.lo | y.hi;
#elif SIMD_WIDTH == 8
    const int4 z = x.lo | x.hi;
#else
    const int4 z = x;
#endif
    const int2 w = z.lo | z.hi;
    return w.x | w.y;
}

INLINE float sum_lanes(const lanes x)
{
#if SIMD_WIDTH == 16
    const float8 y = x.lo + x.hi;
    const float4 z = y.lo + y.hi;
#elif SIMD_WIDTH == 8
    const float4 z = x.lo + x.hi;
#else
    const float4 z = x;
#endif
    const float2 w = z.lo + z.hi;
    return w.x + w.y;
}

/* The largest of the lanes and y; NaNs are passed over. */
INLINE float max_lanes(const lanes x, const float y)
{
#if SIMD_WIDTH == 16
    const float8 u = x.lo > x.hi ? x.lo : x.hi;
    const float4 v = u.lo > u.hi ? u.lo : u.hi;
#elif SIMD_WIDTH == 8
    const float4 v = x.lo > x.hi ? x.lo : x.hi;
#else
    const float4 v = x;
#endif
    const float2 w = v.lo > v.hi ? v.lo : v.hi;
    const float z = w.x > w.y ? w.x : w.y;
    return z > y ? z : y;
}

/* ---- storage -------------------------------------------------------------------------------- */

/* A vector of halves, however they lie. PoCL 3.1's vload_half faults where they are not aligned and
 * what converts them does not read memory itself, so they come by vload where there is a way to
 * name the instruction. */
#if SIMD_WIDTH == 16 && CAN_NAME(__builtin_ia32_vcvtph2ps512_mask) && defined(__AVX512F__)
INLINE lanes load_halves(const __global ushort *p)
{
    enum { ALL = 0xffff, CURRENT = 4 }; /* as instructions name them */
    const short16 x = as_short16(vload16(0, p));

    return __builtin_ia32_vcvtph2ps512_mask(x, (lanes)(0.0f), ALL, CURRENT);
}
#elif SIMD_WIDTH >= 8 && CAN_NAME(__builtin_ia32_vcvtph2ps256) && defined(__F16C__)
INLINE float8 load_8_halves(const __global ushort *p)
{
    return __builtin_ia32_vcvtph2ps256(as_short8(vload8(0, p)));
}

INLINE lanes load_halves(const __global ushort *p)
{
#if SIMD_WIDTH == 16
    return (lanes)(load_8_halves(p), load_8_halves(p + 8));
#else
    return load_8_halves(p);
#endif
}
#else
INLINE lanes load_halves(const __global ushort *p)
{
    return VECTOR(vload_half)(0, (const __global half *)p);
}
#endif

#if DTYPE == DTYPE_F32
#define LOAD_VECTOR(p) VECTOR(vload)(0, (p))
#define STORE_VECTOR(x, p) VECTOR(vstore)((x), 0, (p))
#elif DTYPE == DTYPE_F16
#define LOAD_VECTOR(p) load_halves((const __global ushort *)(p))
#define STORE_VECTOR(x, p) store_halves((x), (p))
#if SIMD_WIDTH == 16
#define STORE_HALVES vstore_half16_rte
#elif SIMD_WIDTH == 8
#define STORE_HALVES vstore_half8_rte
#else
#define STORE_HALVES vstore_half4_rte
#endif

/* By way of an aligned place: PoCL 3.1 takes each for one where it knows the value of x. */
INLINE void store_halves(const lanes x, __global storage *p)
{
    VECTOR(ushort) y;

    STORE_HALVES(x, 0, (half *)&y);
    VECTOR(vstore)(y, 0, (__global ushort *)p);
}
#else
#define LOAD_VECTOR(p) bf16_load_lanes(VECTOR(vload)(0, (p)))
#define STORE_VECTOR(x, p) VECTOR(vstore)(bf16_round_lanes(x), 0, (p))

INLINE lanes bf16_load_lanes(const VECTOR(ushort) x)
{
    return VECTOR(as_float)(VECTOR(convert_uint)(x) << 16);
}

INLINE VECTOR(ushort) bf16_round_lanes(const lanes x)
{
    const VECTOR(uint) u = VECTOR(as_uint)(x);
    const VECTOR(uint) nan = u >> 16 | 0x40u;
    const VECTOR(uint) rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return VECTOR(convert_ushort)(x != x ? nan : rounded);
}
#endif

/* left values from p on, at most SIMD_WIDTH; zeros after them. */
INLINE lanes load_row(const __global storage *p, const long step, const int left)
{
    float x[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH)
        return LOAD_VECTOR(p);
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? LOAD(p, c * step) : 0.0f;
    return VECTOR(vload)(0, x);
}

INLINE void store_row(const lanes x, __global storage *p, const long step, const int left)
{
    float y[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH) {
        STORE_VECTOR(x, p);
        return;
    }
    VECTOR(vstore)(x, 0, y);
    for (int c = 0; c < min(left, SIMD_WIDTH); c++)
        STORE(y[c], p, c * step);
}

/* Keys and values as the products read them: where they are, or (f16, bf16, quantized) from f32
 * copies. */
#if DTYPE == DTYPE_F32 && !K_CACHE && !V_CACHE
#define STAGED 0
typedef const __global float *source;
#define K_COLUMN K_STEP
#define V_COLUMN V_STEP
#else
#define STAGED 1
typedef const float *source;
#define K_COLUMN 1
#define V_COLUMN 1

INLINE void stage_row(float *to, const __global storage *p, const long step, const int dim)
{
    if (step == 1 && dim >= SIMD_WIDTH) {
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            const int at = min(d, dim - SIMD_WIDTH); /* the last vector overlaps the one before */
            VECTOR(vstore)(LOAD_VECTOR(p + at), 0, to + at);
        }
    } else {
        for (int d = 0; d < dim; d++)
            to[d] = LOAD(p, d * step);
    }
}
#endif

#endif
