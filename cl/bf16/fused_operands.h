/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of keys and values as operands of products of tiles (bf16/tiles.h). Keys keep their rows,
 * as pairs of neighbouring dims. Values are transposed: each column of v becomes a row of pairs of
 * neighbouring keys. Zeros fill up rows, columns and keys to whole tiles. Values that are no bf16 have several parts
 * (bf16/parts.h), one behind the other.
 *
 * Included by cpu/fused_operands.h. */
#pragma once
#include "bf16/parts.h"
#include "bf16/stage_pairs.h"

/* Stages a part of the transposed values of at most KEYS_TOGETHER keys from j + n0 on, of a tile of
 * count keys. */
NOINLINE void stage_transposed_values(const int part, const struct arguments *restrict args,
                                      const long b, const long j, const int n0, const int count,
                                      const __global v_storage *v, uint *v_staged)
{
    /* Both vectors of a format block, so that compilers know which half of its bytes each is. */
    enum { TOGETHER = V_CACHE ? 2 * SIMD_WIDTH : SIMD_WIDTH };
    const __global v_storage *row[KEYS_TOGETHER];

    for (int n = 0; n < KEYS_TOGETHER; n++)
        row[n] =
            n0 + n < count ? v_place(v, key_row(args, b, j + n0 + n, args->shape->v_stride)) : 0;
    for (int d0 = 0; d0 < DIM_V; d0 += TOGETHER) {
        UNROLL
        for (int d = d0; d < d0 + TOGETHER; d += SIMD_WIDTH) {
            uint *to = v_staged + d * (BLOCK_N / 2) + n0 / 2;
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = V_PARTS > 1  ? part_of_rows(part, V_CACHE, V_DTYPE, row[2 * r],
                                                   row[2 * r + 1], v_step(args), d, DIM_V)
                       : row[2 * r] ? pairs_of_rows(V_CACHE, row[2 * r], row[2 * r + 1],
                                                    v_step(args), d, DIM_V)
                                    : (lanes)(0.0f);
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                VECTOR(vstore)(VECTOR(as_uint)(x[c]), 0, to + c * (BLOCK_N / 2));
        }
    }
}
