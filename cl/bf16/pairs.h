/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16 pairs: two multiply-adds in each lane of an instruction. A pair is two values in
 * a word, the first in its lower half. A vector of pairs has the type lanes and holds their bits.
 *
 *   dot_pairs(x, y, sum)   sum + x.first * y.first + x.second * y.second in each lane
 *   pack_pairs(a, b)       the pairs of a and b, rounded to nearest, ties away from 0
 *   first_of(), second_of()   the values of a vector of pairs, as f32
 *   pack_exact_pairs(), store_exact()   pairs of values that are exact in bf16: of two vectors, and of neighbours
 *
 * The instruction is AVX512-BF16's VDPBF16PS (Intel, Software Developer's Manual, volume 2; AMD,
 * Architecture Programmer's Manual, volume 6): the products are exact, that of the second values is
 * added first, then that of the first ones, each sum rounded to nearest even; subnormal operands and
 * results are 0. It is written as assembler, since clang's builtin needs a function that is compiled for
 * a processor with it, and PoCL may take the processor for an older one. With EMULATE it is computed
 * step by step, to the bit.
 *
 * Tunables   EMULATE; SIMD_WIDTH, which is 16 unless emulated. */
#pragma once
#include "cpu/simd.h"

typedef VECTOR(uint) pair_words;

#define UPPER_HALF 0xffff0000u

INLINE lanes first_of(const lanes x)
{
    return VECTOR(as_float)(VECTOR(as_uint)(x) << 16);
}

INLINE lanes second_of(const lanes x)
{
    return VECTOR(as_float)(VECTOR(as_uint)(x) & UPPER_HALF);
}

INLINE float first_of_word(const uint x)
{
    return as_float(x << 16);
}
INLINE float second_of_word(const uint x)
{
    return as_float(x & UPPER_HALF);
}

/* Joins the lower half of each word of x with the upper half of y's. LLVM would use a permutation
 * of halves, which is three instructions inside of Intel's processors with tiles. */
#if OPERAND_TILES && defined(__AVX512F__) && HAS_INTRINSIC(__builtin_ia32_pternlogd512_mask)
INLINE lanes choose_halves(const pair_words lower, const pair_words upper)
{
    enum { FIRST_WHERE_THIRD = 0xe4, ALL = 0xffff }; /* immediates of the instruction */

    return as_float16(__builtin_ia32_pternlogd512_mask(
        as_int16(upper), as_int16(lower), (int16)(UPPER_HALF), FIRST_WHERE_THIRD, ALL));
}
#else
INLINE lanes choose_halves(const pair_words lower, const pair_words upper)
{
    return VECTOR(as_float)((lower & ~UPPER_HALF) | (upper & UPPER_HALF));
}
#endif

/* Packs values without NaN, or sums that are not used if their lane has a NaN. */
INLINE lanes pack_pairs(const lanes a, const lanes b)
{
    return choose_halves((VECTOR(as_uint)(a) + 0x8000u) >> 16, VECTOR(as_uint)(b) + 0x8000u);
}

/* Packs values that may be NaN, or rounds one value to the lower half of a word. */
INLINE pair_words rounded_word(const lanes x)
{
    return VECTOR(as_uint)(x) + (x == x ? (pair_words)(0x8000u) : (pair_words)(0u));
}

INLINE lanes pack_any_pairs(const lanes a, const lanes b)
{
    return choose_halves(rounded_word(a) >> 16, rounded_word(b));
}

/* Packs values that are exact in bf16, of which NaNs are quiet. */
INLINE lanes pack_exact_pairs(const lanes a, const lanes b)
{
    return choose_halves(VECTOR(as_uint)(a) >> 16, VECTOR(as_uint)(b));
}

INLINE ushorts round_any(const lanes x)
{
    return VECTOR(convert_ushort)(rounded_word(x) >> 16);
}

#if EMULATE
INLINE lanes without_subnormals(const lanes x)
{
    const pair_words u = VECTOR(as_uint)(x);

    return VECTOR(as_float)((u & 0x7fffffffu) < 0x00800000u ? u & 0x80000000u : u);
}

INLINE lanes dot_pairs(const lanes x, const lanes y, const lanes sum)
{
    const lanes second = fma(without_subnormals(second_of(x)), without_subnormals(second_of(y)),
                             without_subnormals(sum));
    const lanes first = fma(without_subnormals(first_of(x)), without_subnormals(first_of(y)),
                            without_subnormals(second));

    return without_subnormals(first);
}

/* Stores x, then y, which are exact in bf16, as pairs of neighbours. */
INLINE void store_exact(const lanes x, const lanes y, uint *to)
{
    VECTOR(vstore)(VECTOR(convert_ushort)(VECTOR(as_uint)(x) >> 16), 0, (ushort *)to);
    VECTOR(vstore)(VECTOR(convert_ushort)(VECTOR(as_uint)(y) >> 16), 1, (ushort *)to);
}
#else
#if SIMD_WIDTH != 16 || !defined(__AVX512F__)
#error "the instruction is used with vectors of 16, and with a compiler that has registers for them"
#endif
INLINE lanes dot_pairs(const lanes x, const lanes y, lanes sum)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}

INLINE void store_exact(const lanes x, const lanes y, uint *to)
{
    pair_words words;

    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words) : "v"(x), "v"(y));
    VECTOR(vstore)(words, 0, to);
}
#endif
