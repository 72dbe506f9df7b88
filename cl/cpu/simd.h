/* SPDX-License-Identifier: Apache-2.0 */
/* SIMD vectors of SIMD_WIDTH (4, 8 or 16) floats, with queries, keys or columns as lanes, for the
 * kernels for CPUs. simd_storage.h loads and stores them. */
#pragma once
#include "common/kernel.h"
#include "cpu/lanes.h"
#include "families/units.h"

/* NOINLINE marks the steps of a kernel, which are called at most once a tile. PoCL compiles
 * inlined code two or three times, once for each launcher that it makes of the kernel, and LLVM's
 * time grows faster than the size of a function. A NOINLINE function must ask for no ids, since
 * PoCL would then inline it. It takes vectors by pointer, since passing them by value depends on
 * the processor's instructions. */
#define NOINLINE static __attribute__((noinline))
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")   /* marks loops whose speed is not worth a longer build */
#define UNROLL_BY_8 _Pragma("unroll 8") /* marks loops that full unrolling does not speed up */

/* Precedes a loop over the lanes of a vector, whose body compilers are to turn into vectors again. */
#ifdef __clang__
#define EACH_LANE                                                                                  \
    _Pragma("clang loop unroll(disable) vectorize(assume_safety) vectorize_width(SIMD_WIDTH)")
#else
#define EACH_LANE
#endif

/* Work-items call these at their begin and end; bf16/tiles.h has those of the instruction. */
#if !OPERAND_TILES || EMULATE
#define configure_tiles()
#define release_tiles()
#endif

/* ---- shuffles ------------------------------------------------------------------------------- */

/* A shuffle of the elements of two vectors; those of b count on from those of a. clang's builtin is
 * one instruction from the start, whereas LLVM must find that out of a vector literal. */
#if defined(NO_SHUFFLEVECTOR) || !defined(__has_builtin)
#define CHOOSE(a, b, ...) shuffle2(a, b, (VECTOR(uint))(__VA_ARGS__))
#elif __has_builtin(__builtin_shufflevector)
#define CHOOSE __builtin_shufflevector
#else
#define CHOOSE(a, b, ...) shuffle2(a, b, (VECTOR(uint))(__VA_ARGS__))
#endif

enum { LOG2_WIDTH = SIMD_WIDTH == 16 ? 4 : SIMD_WIDTH == 8 ? 3 : 2 };

/* Interleaved vectors. PAIRS: the elements of the low or high half of a, each followed by b's.
 * IN_FOURS: the same in each four elements. BLOCKS: as PAIRS, in units of four elements. */
#if SIMD_WIDTH == 16
#define LOW_PAIRS(a, b) CHOOSE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_PAIRS(a, b) CHOOSE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_IN_FOURS(a, b) CHOOSE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH_IN_FOURS(a, b) CHOOSE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW_BLOCKS(a, b) CHOOSE(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23)
#define HIGH_BLOCKS(a, b) CHOOSE(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)
#elif SIMD_WIDTH == 8
#define LOW_PAIRS(a, b) CHOOSE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_PAIRS(a, b) CHOOSE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_IN_FOURS(a, b) CHOOSE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_IN_FOURS(a, b) CHOOSE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_BLOCKS(a, b) CHOOSE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_BLOCKS(a, b) CHOOSE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
/* The first half of a and the last of b; the last of a and the first of b. */
#define OUTER_HALVES(a, b) CHOOSE(a, b, 0, 1, 2, 3, 12, 13, 14, 15)
#define INNER_HALVES(a, b) CHOOSE(a, b, 4, 5, 6, 7, 8, 9, 10, 11)
#else
#define LOW_PAIRS(a, b) CHOOSE(a, b, 0, 4, 1, 5)
#define HIGH_PAIRS(a, b) CHOOSE(a, b, 2, 6, 3, 7)
#define LOW_IN_FOURS(a, b) LOW_PAIRS(a, b)
#define HIGH_IN_FOURS(a, b) HIGH_PAIRS(a, b)
#endif

/* Transposes the 4 x 4 matrices that each four lanes of x[0..3] hold. */
INLINE void transpose_fours(lanes *x)
{
    const lanes even_low = LOW_IN_FOURS(x[0], x[2]), odd_low = LOW_IN_FOURS(x[1], x[3]);
    const lanes even_high = HIGH_IN_FOURS(x[0], x[2]), odd_high = HIGH_IN_FOURS(x[1], x[3]);

    x[0] = LOW_IN_FOURS(even_low, odd_low);
    x[1] = HIGH_IN_FOURS(even_low, odd_low);
    x[2] = LOW_IN_FOURS(even_high, odd_high);
    x[3] = HIGH_IN_FOURS(even_high, odd_high);
}

/* Transposes the SIMD_WIDTH x SIMD_WIDTH matrix x: 4 x 4 matrices first, then these as elements. */
INLINE void transpose(lanes *x)
{
    UNROLL
    for (int r = 0; r < SIMD_WIDTH; r += 4)
        transpose_fours(x + r);
#if SIMD_WIDTH > 4
    UNROLL
    for (int stage = 2; stage < LOG2_WIDTH;
         stage++) { /* rotates the bits of (row, column) by one */
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

/* ---- reductions ----------------------------------------------------------------------------- */

/* The halves of a vector of 16; half() chooses one by a shuffle. */
#ifdef NO_SHUFFLEVECTOR
#define LOW_HALF(x) shuffle(x, (uint8)(0, 1, 2, 3, 4, 5, 6, 7))
#define HIGH_HALF(x) shuffle(x, (uint8)(8, 9, 10, 11, 12, 13, 14, 15))
#else
#define LOW_HALF(x) (x).lo
#define HIGH_HALF(x) (x).hi
#endif

/* Halves are combined until four elements remain. */
#if SIMD_WIDTH == 16
INLINE int4 or_to_fours(const ints x)
{
    const int8 y = LOW_HALF(x) | HIGH_HALF(x);

    return y.lo | y.hi;
}

INLINE float4 sum_to_fours(const lanes x)
{
    const float8 y = LOW_HALF(x) + HIGH_HALF(x);

    return y.lo + y.hi;
}

INLINE float4 max_to_fours(const lanes x)
{
    const float8 l = LOW_HALF(x), h = HIGH_HALF(x), u = l > h ? l : h;

    return u.lo > u.hi ? u.lo : u.hi;
}
#elif SIMD_WIDTH == 8
INLINE int4 or_to_fours(const ints x)
{
    return x.lo | x.hi;
}

INLINE float4 sum_to_fours(const lanes x)
{
    return x.lo + x.hi;
}

INLINE float4 max_to_fours(const lanes x)
{
    return x.lo > x.hi ? x.lo : x.hi;
}
#else
INLINE int4 or_to_fours(const ints x)
{
    return x;
}

INLINE float4 sum_to_fours(const lanes x)
{
    return x;
}

INLINE float4 max_to_fours(const lanes x)
{
    return x;
}
#endif

/* Is nonzero if some lane is nonzero. */
INLINE int any_lane(const ints x)
{
    const int4 z = or_to_fours(x);
    const int2 w = z.lo | z.hi;

    return w.x | w.y;
}

INLINE float sum_lanes(const lanes x)
{
    const float4 z = sum_to_fours(x);
    const float2 w = z.lo + z.hi;

    return w.x + w.y;
}

/* The largest of the lanes and y; NaNs are ignored. */
INLINE float max_lanes(const lanes x, const float y)
{
    const float4 v = max_to_fours(x);
    const float2 w = v.lo > v.hi ? v.lo : v.hi;
    const float z = w.x > w.y ? w.x : w.y;

    return z > y ? z : y;
}
