/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q8_0, as macros that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * signed byte, the scale is the largest magnitude divided by 127. */
#pragma once

#define Q8_0_ONE(byte, shift) ((float)as_char(byte))
#define Q8_0_FOUR(bytes, shift) convert_float4(as_char4(bytes))
#define Q8_0_LANES(bytes, shift) VECTOR(convert_float)(VECTOR(as_char)(bytes))

/* In the significand of 2^10 (f16) a byte has 128 added. That of 2^7 (bf16) has room for seven
 * bits; the eighth, the sign, decides whether 128 or 256 is subtracted. */
#define Q8_0_WORD(word) (DTYPE == DTYPE_F16 ? (word) ^ 0x80808080u : (word))
#define Q8_0_FILL (DTYPE == DTYPE_F16 ? 0x64646464u : 0x43434343u)
#define Q8_0_PAIR(x, power, less)                                                                  \
    (DTYPE == DTYPE_F16 ? fma_pair(x, power, less)                                                 \
                        : fma_pair((x)&0xff7fff7fu, power, ((x)&0xff80ff80u) ^ 0x80008000u))
#define Q8_0_SPREAD(word, high)                                                                    \
    (DTYPE == DTYPE_F16 ? ((word)&0x00ff00ffu) ^ 0x64806480u : ((word)&0x00ff00ffu) | 0x43004300u)
#define Q8_0_HIGH_POWER Q8_0_POWER
#define Q8_0_HIGH_LESS Q8_0_LESS
#define Q8_0_CODE_UNIT 1.0f
#define Q8_0_POWER (DTYPE == DTYPE_F16 ? 0x3c003c00u : 0x3f803f80u)
#define Q8_0_LESS 0xe480e480u /* -1152 in f16 */
#define Q8_0_LEAST_POWER 0x1p-24f

#define Q8_0_OF_PEAK 0
#define Q8_0_SCALE(most) fabs(divide(most, 127.0f, 0x1.020408p-7f))
#define Q8_0_SCALES(most) fabs(divide_four(most, 127.0f, (float4)(0x1.020408p-7f)))
#define Q8_0_CODE(x) ((int)round(x) & 255)
#define Q8_0_CODES(x) round_away(x)
