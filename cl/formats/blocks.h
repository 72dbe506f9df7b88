/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of quantized values: their sizes, and the numbers of their codes, in the formats of
 * src/problem/formats.def, which says what a block consists of.
 *
 * A format is a number, as in K_CACHE; functions take it as an argument that is a constant once inlined. The file of
 * a format, cl/formats/NAME.h, has these functions, which begin with its name:
 *   one(byte, shift, fifth)   the number of a code as a float: `shift` is 4 for the high half of a byte, else 0;
 *                         fifth is its fifth bit, or else 0
 *   four(bytes, shift, fifth)   of four codes, of a uchar4, as a float4; the fifth bits are the last ones of `fifth`
 *   lanes(codes, n, fifth)  of the vector (cpu/lanes.h) of values from n on of a block with these codes and fifth bits,
 *                         divided by form(true).unit, a power of two; only kernels for CPUs use it
 * For the elements of matrix units (mma/quantized_bytes.h, mma/fragment_tile.h), f16 or else bf16:
 *   form(f16)             constants: struct element_form
 *   word(f16, word)       four codes, of a byte each, in the form for pair()
 *   pair(f16, x, less)    the factor and the addend that give the numbers of two codes as elements, times a power of
 *                         two: elements are the factor times the power, plus the addend. x has a code in each half,
 *                         below a byte of `fill`; `less` is the form's, times the power
 *   spread(f16, word, high, fifth)   bytes 0 and 2 of a word in the form for pair(), or the codes in their high
 *                         halves, for which high_power and high_less take the places of power and less; bits 0 and 16
 *                         of `fifth` are the codes' fifth bits, the others 0
 * How blocks are made: cl/formats/make_blocks.h. */
#pragma once

/* What elements of matrix units are made with; pairs of elements are in a word. */
struct element_form {
    uint fill;        /* four bytes: what lies above a code in an element */
    uint power, less; /* a pair for a power of 1; for others these times the power */
    uint high_power, high_less;
    float unit;        /* the element of `power` as a float; 1 if `less` is not 0 */
    float least_power; /* the least power of two by which all numbers stay exact in f16 */
};

#include "formats/quotients.h"
#include "problem/formats.def"

enum { BLOCK_VALUES = CA_BLOCK_VALUES, CACHE_PLAIN = 0 /* of no blocks */ };

/* The bytes of a block; 0 for plain values. */
#define TRAIT_BYTES(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest,     \
                    error, format)                                                                 \
    (format) == number ? bytes:
#define BLOCK_BYTES(format) (CA_BLOCK_FORMATS(TRAIT_BYTES, format) 0)

/* The other properties of a format that kernels need. */
struct block_layout {
    int bits;                        /* of a code, without its fifth */
    int scale, offset, fifth, codes; /* where they begin */
    int fits;                        /* 1: the stored scale is fitted to the codes */
    float largest;                   /* the largest magnitude of a number */
};

#define RETURN_LAYOUT(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest,   \
                      error, format)                                                               \
    if (format == number)                                                                          \
        return (struct block_layout){bits, scale, offset, fifth, codes, fits, largest};

static inline struct block_layout layout_of(const int format)
{
    CA_BLOCK_FORMATS(RETURN_LAYOUT, format)
    return (struct block_layout){0, -1, 0, 0, 0, 0, 0.0f};
}

static inline int bits_of_codes(const int format)
{
    return layout_of(format).bits;
}

static inline int codes_at(const int format)
{
    return layout_of(format).codes;
}

/* The index of the code byte that has value n of a block, and the value's shift in that byte. */
static inline int code_byte(const int format, const int n)
{
    return bits_of_codes(format) == 8 ? n & 31 : n & 15;
}

static inline int code_shift(const int format, const int n)
{
    return bits_of_codes(format) == 8 ? 0 : (n & 16) / 4;
}

/* In a function with an argument `format`, returns the result of the format's own function. `call` is that call without the
 * format's name and the underscore before it. */
#define RETURN_OF(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest,       \
                  error, call)                                                                     \
    if (format == number)                                                                          \
        return name##_##call;

static inline float number_of_code(const int format, const uchar byte, const int shift,
                                   const uint fifth)
{
    CA_BLOCK_FORMATS(RETURN_OF, one(byte, shift, fifth))
    return 0.0f;
}

static inline float4 numbers_of_four(const int format, const uchar4 bytes, const int shift,
                                     const uint fifth)
{
    CA_BLOCK_FORMATS(RETURN_OF, four(bytes, shift, fifth))
    return 0.0f;
}

static inline lanes numbers_of_vector(const int format, const __global uchar *codes, const int n,
                                      const uint fifth)
{
    CA_BLOCK_FORMATS(RETURN_OF, lanes(codes, n, fifth))
    return 0.0f;
}

/* What numbers of vectors are divided by: sums of products with them are multiplied with it. */
static inline float unit_of_lanes(const int format)
{
    CA_BLOCK_FORMATS(RETURN_OF, form(true).unit)
    return 1.0f;
}
