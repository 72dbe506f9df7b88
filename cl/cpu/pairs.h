/* Products of bf16 pairs: two multiply-adds in each lane of an instruction. A pair is two values in a
 * word, the first in its lower half. A vector of pairs is kept as lanes, whose bits the pairs are.
 *
 *   dot_pairs(x, y, sum)   sum + x.first * y.first + x.second * y.second in each lane, where the word
 *                          *y is broadcast to all
 *   pack_pairs(a, b)       the pairs of a and b, rounded to nearest, ties away from 0
 *   first_of(), second_of()   the values of a vector of pairs, as f32
 *
 * The instruction is AVX512-BF16's VDPBF16PS (Intel, Software Developer's Manual, volume 2; AMD,
 * Architecture Programmer's Manual, volume 6): the products are exact, that of the second values is
 * added first, then that of the first ones, each sum rounded to nearest even; subnormal operands and
 * results are 0. It is written as assembler, since clang's builtin wants a function to be compiled for
 * a processor that has it, and PoCL may take the processor for an older one. With EMULATE it is computed
 * step by step, to the bit.
 *
 * Before including this: EMULATE, SIMD_WIDTH (16 unless emulated). */
#ifndef CLATTN_PAIRS_H
#define CLATTN_PAIRS_H
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

INLINE float first_of_word(const uint x) { return as_float(x << 16); }
INLINE float second_of_word(const uint x) { return as_float(x & UPPER_HALF); }

/* Of values that are no NaN, or whose sum nobody looks at without a NaN of the same lane. */
INLINE lanes pack_pairs(const lanes a, const lanes b)
{
    const pair_words x = VECTOR(as_uint)(a) + 0x8000u, y = VECTOR(as_uint)(b) + 0x8000u;

    return VECTOR(as_float)(x >> 16 | (y & UPPER_HALF));
}

/* Likewise of values that may be NaN, and one of them alone, in the lower half of a word. */
INLINE pair_words rounded_word(const lanes x)
{
    return VECTOR(as_uint)(x) + (x == x ? (pair_words)(0x8000u) : (pair_words)(0u));
}

INLINE lanes pack_any_pairs(const lanes a, const lanes b)
{
    return VECTOR(as_float)(rounded_word(a) >> 16 | (rounded_word(b) & UPPER_HALF));
}

INLINE VECTOR(ushort) round_any(const lanes x)
{
    return VECTOR(convert_ushort)(rounded_word(x) >> 16);
}

#if EMULATE
INLINE lanes without_subnormals(const lanes x)
{
    const pair_words u = VECTOR(as_uint)(x);

    return VECTOR(as_float)((u & 0x7fffffffu) < 0x00800000u ? u & 0x80000000u : u);
}

INLINE lanes dot_pairs(const lanes x, const uint *y, const lanes sum)
{
    const lanes z = as_float(*y);
    const lanes second = fma(without_subnormals(second_of(x)), without_subnormals(second_of(z)),
                             without_subnormals(sum));
    const lanes first = fma(without_subnormals(first_of(x)), without_subnormals(first_of(z)),
                            without_subnormals(second));

    return without_subnormals(first);
}
#else
#if SIMD_WIDTH != 16 || !defined(__AVX512F__)
#error "the instruction is used with vectors of 16, and with a compiler that has registers for them"
#endif
INLINE lanes dot_pairs(const lanes x, const uint *y, lanes sum)
{
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(x), "m"(*y));
    return sum;
}
#endif

#endif
