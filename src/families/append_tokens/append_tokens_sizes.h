/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of append_tokens.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/sizes.h"

#define CHUNK 32 /* columns that are loaded at a time: a block */

/* Columns that an item turns at most, also in vectors. */
#define TURNED_COLUMNS (ROTARY ? WHOLE_ROWS ? ROUND_UP(ROTARY_DIM, CHUNK) : CHUNK : 0)
#define TURNED (TURNED_COLUMNS / SIMD_WIDTH)

/* A token's cosines and sines, struct turn; as many bytes have the powers of an item, struct twice. */
#define TURN_BYTES (2 * TURNED_COLUMNS * FLOAT_BYTES)
/* Where a token goes: struct token. */
#define TOKEN_BYTES (5 * LONG_BYTES)

#define PRIVATE_BYTES (TOKENS * (TURN_BYTES + TOKEN_BYTES) + TURN_BYTES)
