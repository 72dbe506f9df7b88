/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of operands of products on CPUs (cl/cpu/operands.h), for kernels and, with the names of families/names.h, for the host.
 *
 * Before including this: UNIT, SIMD_WIDTH. */
#pragma once
#include "families/sizes.h"
#include "families/units.h"

#define VALUES_IN_OPERAND (OPERAND_PAIRS ? 2 : 1)
#define OPERANDS(n) DIVIDE_UP(n, VALUES_IN_OPERAND)
/* Those of a row of q or k. */
#define QK_OPERANDS(n) (OPERAND_BYTES ? DIVIDE_UP(n, 4) : OPERANDS(n))
/* The number of columns, rounded up to whole vectors. */
#define ROUNDED(n) ROUND_UP(n, SIMD_WIDTH)
#define VECTORS(dim) DIVIDE_UP(dim, SIMD_WIDTH)

/* The tiles of pairs (cl/bf16/pair_tiles.h): rows, and words of a row. */
#define TILE 16
#define TILES(n) DIVIDE_UP(n, TILE)
#define ROUNDED_TO_TILES(n) (TILES(n) * TILE)
/* The keys that form the rows of a register tile of Q K^T, and the depth of a tile of P V. */
#define STEP_KEYS (2 * TILE)
