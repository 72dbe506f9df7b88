/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q4_0, as macros that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * number from -8 to 7 with 8 added, the scale is the value of the largest magnitude divided by -8. */
#pragma once

#define Q4_0_ONE(byte, shift) ((float)(((byte) >> (shift)&15) - 8))
#define Q4_0_FOUR(bytes, shift) (convert_float4((bytes) >> (uchar4)(shift) & (uchar4)15) - 8.0f)
/* Codes are the last bits of a float from 2^23 on, where floats are integers. */
#define Q4_0_LANES(bytes, shift)                                                                   \
    (VECTOR(as_float)(                                                                             \
         ((shift) ? VECTOR(convert_int)(bytes) >> 4 : VECTOR(convert_int)(bytes) & 15) |           \
         0x4b000000) -                                                                             \
     (0x1p23f + 8.0f))

#define Q4_0_WORD(word) (word)
#define Q4_0_FILL (DTYPE == DTYPE_F16 ? 0x64646464u : 0x43434343u)
#define Q4_0_PAIR(x, power, less) fma_pair(x, power, less)
/* Codes in high halves count 16 times as much, if a significand has room for that, as in f16. */
#define Q4_0_SPREAD(word, high)                                                                    \
    (DTYPE != DTYPE_F16 ? (((high) ? (word) >> 4 : (word)) & 0x000f000fu) | 0x43004300u            \
     : (high)           ? ((word)&0x00f000f0u) | 0x64006400u                                       \
                        : ((word)&0x000f000fu) | 0x64006400u)
#define Q4_0_HIGH_POWER (DTYPE == DTYPE_F16 ? 0x2c002c00u : Q4_0_POWER)
#define Q4_0_HIGH_LESS (DTYPE == DTYPE_F16 ? 0xd480d480u : Q4_0_LESS) /* -72 */
#define Q4_0_CODE_UNIT 1.0f
#define Q4_0_POWER (DTYPE == DTYPE_F16 ? 0x3c003c00u : 0x3f803f80u)
#define Q4_0_LESS (DTYPE == DTYPE_F16 ? 0xe408e408u : 0xc308c308u) /* -1032, and -136 in bf16 */
#define Q4_0_LEAST_POWER 0x1p-24f

#define Q4_0_OF_PEAK 1
#define Q4_0_SCALE(peak) ((peak) * -0.125f)
#define Q4_0_SCALES(peaks) ((peaks) * -0.125f)
#define Q4_0_CODE(x) min((int)((x) + 8.5f), 15)
/* min(vector, scalar) is wrong in Oclgrind 21.10. */
#define Q4_0_CODES(x) min(VECTOR(convert_int)((x) + 8.5f), (ints)(15))
