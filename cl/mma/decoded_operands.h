/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of mma.sync decoded in registers from quantized rows in local memory, without a tile of elements.
 *
 * Each lane decodes what it multiplies. The order of a product's terms is free if both operands have the same:
 *   keys     a lane's words of a key's codes are four neighbouring codes each, and Q's dims have that order
 *   values   a lane has the same few dims of each of its keys; dims are the rows of the product
 * Codes of 4 bits: the low halves of a block's bytes are a step's terms, the high halves the next step's.
 *
 * Rows begin at words; blocks, and so codes, may begin in the middle of one. Lanes then take the words inside of the
 * codes, and the last lane one word made of the first and the last two bytes: the codes in a rotated order.
 *
 * KEY_SPACING: neighbouring keys of a tile are so many rows apart that the lanes of an access meet in no bank. */
#pragma once
#include "mma/quantized_bytes.h"

#define ROW_WORDS(row_bytes) DIVIDE_UP(row_bytes, 4)
/* The byte of a row where a block's codes begin, and the words that they fill. */
#define CODES_BEGIN(cache, block) ((block)*BLOCK_BYTES(cache) + codes_at(cache))
#define CODE_WORDS(cache) bits_of_codes(cache)
/* The number of codes by which a block's order is rotated. */
#define ROTATED(cache, block) (CODES_BEGIN(cache, block) % 4)

/* A lane's number among those that share a key of a tile, and the word that it reads in step i. */
#define LANE_TERM(lane) (sum_other(lane, 0) / 2)
#define KEY_WORD(cache, i, lane) (LANE_TERM(lane) + (bits_of_codes(cache) == 8 ? 4 * (i) : 0))

/* The dim, in a block, of term `depth` of step i in a product with keys. */
static inline int dim_of_term(const int cache, const int block, const int i, const int depth)
{
    const int term = depth % 8 / 2, byte = depth % 2 * 2 + depth / 8;

    return bits_of_codes(cache) == 8 ? (ROTATED(cache, block) + 4 * (term + 4 * i) + byte) % 32
                                     : (ROTATED(cache, block) + 4 * term + byte) % 16 + 16 * i;
}

/* The dim, in a block, of row 8 x + n of its m-th tile of 16 dims. */
static inline int dim_of_row(const int cache, const int n, const int m, const int x)
{
    return bits_of_codes(cache) == 8 ? 4 * n + 2 * m + x : 2 * n + x + 16 * m;
}

static inline uint spread_codes(const int format, const uint word, const bool high,
                                const uint fifth)
{
    CA_BLOCK_FORMATS(RETURN_OF, spread(DTYPE == DTYPE_F16, word, high, fifth))
    return 0;
}

/* Decodes the codes in bytes 0 and 2 of a word; with `odd`, those in bytes 1 and 3. Bits 0 and 16 of `fifth` are the
 * codes' fifth bits. */
INLINE uint elements_of_word(const int cache, const uint word, const int odd, const bool high,
                             const uint fifth, const uint power, const uint less)
{
    return pair_of_codes(cache, spread_codes(cache, odd ? word >> 8 : word, high, fifth), power,
                         less);
}

/* Decodes a key's operand of step i of a block; order comes from ROTATION_ORDER(). */
INLINE void decode_keys(uint words[OTHER_WORDS], const __local uint *row, const int block,
                        const int i, const int lane, const uint order)
{
    const int first = DIVIDE_UP(CODES_BEGIN(K_CACHE, block), 4);
    const bool high = bits_of_codes(K_CACHE) == 4 ? i > 0 : false;
    const struct element_form form = element_form_of(K_CACHE);
    const uint power = high ? form.high_power : form.power;
    const uint less = high ? form.high_less : form.less;
    uint word = row[first + KEY_WORD(K_CACHE, i, lane)];

    if (ROTATED(K_CACHE, block) > 0 && i >= CODE_WORDS(K_CACHE) / 4 - 1)
        word = permute_bytes(word, row[first - 1], order);
    uint fifth[2] = {0}; /* of bytes 0 and 2, and of bytes 1 and 3 */
    if (layout_of(K_CACHE).fifth) {
        const uint bits =
            fifth_bits_at(K_CACHE, (const __local uchar *)row, block * BLOCK_BYTES(K_CACHE)) >>
                16 * i &
            0xffff;
        const uint four =
            (bits | bits << 16) >> (ROTATED(K_CACHE, block) + 4 * LANE_TERM(lane)) % 16;
        fifth[0] = (four & 1) | (four & 4) << 14;
        fifth[1] = (four >> 1 & 1) | (four & 8) << 13;
    }
    words[0] = elements_of_word(K_CACHE, word, 0, high, fifth[0], power, less);
    words[1] = elements_of_word(K_CACHE, word, 1, high, fifth[1], power, less);
}

/* The byte order that assembles the last word of a rotated block. */
#define ROTATION_ORDER(lane) (LANE_TERM(lane) == 3 ? 0x7610u : 0x3210u)

/* Decodes the operands of V for two tiles of dims of a block and the lane's four keys. powers: for each pair of neighbouring
 * keys the arguments `power` and `less` of pair_of_codes(). */
INLINE void decode_values(uint words[2][QUERY_WORDS], const __local uchar *const rows[4],
                          const int block, const uint2 powers[2], const int lane)
{
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
        const uint power = powers[pair].x, less = powers[pair].y;
        const int from = CODES_BEGIN(V_CACHE, block);
        uint codes[2][2] = {{0}}; /* one for each half and key */

        UNROLL
        for (int k = 0; k < 2; k++) {
            const __local uchar *const bytes =
                rows[2 * pair + k] + from + other_column(lane) * bits_of_codes(V_CACHE) / 2;
            if (bits_of_codes(V_CACHE) == 8 && from % 4 == 0) {
                codes[0][k] = *(const __local uint *)bytes;
            } else {
                codes[0][k] = *(const __local ushort *)bytes;
                if (bits_of_codes(V_CACHE) == 8)
                    codes[1][k] = *(const __local ushort *)(bytes + 2);
            }
        }
        if (bits_of_codes(V_CACHE) == 8) {
            const uint low = permute_bytes(codes[0][0], codes[0][1], 0x5410);
            const uint high = from % 4 == 0 ? permute_bytes(codes[0][0], codes[0][1], 0x7632)
                                            : permute_bytes(codes[1][0], codes[1][1], 0x5410);
            UNROLL
            for (int x = 0; x < 2; x++) {
                words[0][2 * pair + x] = elements_of_word(V_CACHE, low, x, 0, 0, power, less);
                words[1][2 * pair + x] = elements_of_word(V_CACHE, high, x, 0, 0, power, less);
            }
        } else {
            const uint both = permute_bytes(codes[0][0], codes[0][1], 0x5410);
            const bool scaled = DTYPE == DTYPE_F16;
            const struct element_form form = element_form_of(V_CACHE);
            const uint high_power = scaled ? fma_pair(power, form.high_power, 0) : form.high_power;
            const uint high_less = scaled ? fma_pair(power, form.high_less, 0) : form.high_less;
            uint bits[2];
            UNROLL
            for (int k = 0; k < 2; k++)
                bits[k] =
                    fifth_bits_at(V_CACHE, rows[2 * pair + k], block * BLOCK_BYTES(V_CACHE)) >>
                    2 * other_column(lane);
            UNROLL
            for (int x = 0; x < 2; x++) {
                const uint low = (bits[0] >> x & 1) | (bits[1] >> x & 1) << 16;
                const uint high = (bits[0] >> (16 + x) & 1) | (bits[1] >> (16 + x) & 1) << 16;
                words[0][2 * pair + x] = elements_of_word(V_CACHE, both, x, 0, low, power, less);
                words[1][2 * pair + x] =
                    elements_of_word(V_CACHE, both, x, 1, high, high_power, high_less);
            }
        }
    }
}
