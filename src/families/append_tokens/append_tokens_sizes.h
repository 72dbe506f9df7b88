/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of append_tokens.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/sizes.h"

#define CHUNK 32 /* the columns of a block, which are loaded together */

/* The largest number of columns that an item rotates, also in vectors. */
#define TURNED_COLUMNS (ROTARY ? WHOLE_ROWS ? ROUND_UP(ROTARY_DIM, CHUNK) : CHUNK : 0)
#define TURNED (TURNED_COLUMNS / SIMD_WIDTH)

/* A token's cosines and sines, struct turn. The powers of an item take as many bytes as two of
 * them. */
#define TURN_BYTES (2 * TURNED_COLUMNS * FLOAT_BYTES)
/* The size of struct token, which has a token's row in the cache. */
#define TOKEN_BYTES (5 * LONG_BYTES)

#define PRIVATE_BYTES (TOKENS * (TURN_BYTES + TOKEN_BYTES) + TURN_BYTES)
