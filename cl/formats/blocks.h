/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of quantized values: their sizes, and the numbers of their codes, in the formats of
 * src/problem/formats.def, which says what a block consists of.
 *
 * A format is a number, as in K_CACHE; functions take it as an argument that is a constant once inlined. The file of
 * a format, cl/formats/NAME.h, has these macros, which begin with its ID:
 *   ONE(byte, shift)      the number of a code as a float: `shift` is 4 for the high half of a byte, else 0
 *   FOUR(bytes, shift)    of four codes, of a uchar4, as a float4
 *   LANES(bytes, shift)   of a vector of uchars as lanes (cpu/simd.h)
 * For the elements of matrix units (mma/quantized_bytes.h, mma/fragment_tile.h):
 *   WORD(word)            four codes, of a byte each, in the form for PAIR
 *   FILL, PAIR(x, power, less)   the numbers of two codes as elements, times a power of two; x has a code in each
 *                         half, below a byte of FILL
 *   POWER, LESS           pairs of elements that PAIR takes for a power of 1; of others these times the power
 *   SPREAD(word, high)    bytes 0 and 2 of a word in the form for PAIR, or the codes in their high halves, for which
 *                         HIGH_POWER and HIGH_LESS take the places of POWER and LESS
 *   CODE_UNIT             the element of POWER as a float; 1 if LESS is not 0
 *   LEAST_POWER           the least power of two by which all numbers stay exact in f16
 * How blocks are made: cl/formats/make_blocks.h. */
#pragma once
#include "problem/formats.def"

#define BLOCK_VALUES CA_BLOCK_VALUES
#define CACHE_PLAIN 0

/* A format's entry in the table; 0 for plain values. */
#define TRAIT_BITS(ID, number, name, bits, scale, codes, bytes, largest, error, format)            \
    (format) == number ? bits:
#define TRAIT_SCALE(ID, number, name, bits, scale, codes, bytes, largest, error, format)           \
    (format) == number ? scale:
#define TRAIT_CODES(ID, number, name, bits, scale, codes, bytes, largest, error, format)           \
    (format) == number ? codes:
#define TRAIT_BYTES(ID, number, name, bits, scale, codes, bytes, largest, error, format)           \
    (format) == number ? bytes:
#define BITS_OF_CODES(format) (CA_BLOCK_FORMATS(TRAIT_BITS, format) 0)
#define SCALE_AT(format) (CA_BLOCK_FORMATS(TRAIT_SCALE, format) 0)
#define CODES_AT(format) (CA_BLOCK_FORMATS(TRAIT_CODES, format) 0)
#define BLOCK_BYTES(format) (CA_BLOCK_FORMATS(TRAIT_BYTES, format) 0)

/* The index of the code byte that has value n of a block, and the value's shift in that byte. */
#define CODE_BYTE(format, n) (BITS_OF_CODES(format) == 8 ? (n)&31 : (n)&15)
#define CODE_SHIFT(format, n) (BITS_OF_CODES(format) == 8 ? 0 : ((n)&16) / 4)

/* Returns the macro of the format that is the function's argument, where it is one of blocks. */
#define RETURN_OF(ID, number, name, bits, scale, codes, bytes, largest, error, macro)              \
    if (format == number)                                                                          \
        return ID##_##macro;

static inline float number_of_code(const int format, const uchar byte, const int shift)
{
    CA_BLOCK_FORMATS(RETURN_OF, ONE(byte, shift))
    return 0.0f;
}

static inline float4 numbers_of_four(const int format, const uchar4 bytes, const int shift)
{
    CA_BLOCK_FORMATS(RETURN_OF, FOUR(bytes, shift))
    return 0.0f;
}
