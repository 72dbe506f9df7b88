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

/* Where the scale and the offset of a format begin; of other numbers -1 and 0. */
#define CA_BLOCK_SCALE(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest,  \
                       error, format)                                                              \
    (format) == number ? scale:
#define CA_SCALE_AT(format) (CA_BLOCK_FORMATS(CA_BLOCK_SCALE, format) - 1)
#define CA_BLOCK_OFFSET(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest, \
                        error, format)                                                             \
    (format) == number ? offset:
#define CA_OFFSET_AT(format) (CA_BLOCK_FORMATS(CA_BLOCK_OFFSET, format) 0)

/* Operands of tiles that are no bf16 are the sum of their parts in bf16 (cl/bf16/parts.h). Two are exact for f16; three for blocks
 * with scales, of which values take two: these are off by up to 2^-16. Numbers in a format of bytes are bf16. Weights have as many
 * parts as queries. A product leaves out what is below 2^-24 of it, of weights 2^-15. */
#define Q_PARTS (OPERAND_TILES && DTYPE == DTYPE_F16 ? 2 : 1)
#define PARTS_OF_CACHE(cache, of_blocks)                                                           \
    (!OPERAND_TILES || !(cache) ? Q_PARTS : CA_SCALE_AT(cache) < 0 ? 1 : (of_blocks))
#define K_PARTS PARTS_OF_CACHE(K_CACHE, 3)
#define V_PARTS PARTS_OF_CACHE(V_CACHE, 2)
#define IN_PARTS (Q_PARTS * K_PARTS * V_PARTS > 1)
#define QK_ORDERS MIN(Q_PARTS + K_PARTS - 1, 3)
#define PV_ORDERS MIN(Q_PARTS + V_PARTS - 1, 2)
