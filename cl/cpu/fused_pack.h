/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores of fused_cpu: queries and outputs of a block are transposed so that SIMD lanes
 * are queries, and the next rows are prefetched beside a tile.
 *
 * Tunables   SIMD_WIDTH, BLOCK_VECTORS, BLOCK_N, BLOCKS_PER_TILE. */
#pragma once
#include "common/common.h"
#include "cpu/fused_operands.h"
#include "score/query_lanes.h"

/* Loads columns d to d + SIMD_WIDTH - 1 of vector m of the block's queries, with queries in SIMD lanes. */
INLINE void load_query_columns(const struct arguments *args, const struct query_block block,
                               const __global storage *q, const int m, const int d, lanes *x)
{
    UNROLL
    for (int r = 0; r < SIMD_WIDTH; r++) {
        const long row = min(m * SIMD_WIDTH + r, block.queries - 1);
        x[r] = load_row(q + row * args->shape->q_stride[2] + d * q_step(args), q_step(args),
                        DIM_QK - d);
    }
    transpose(x);
}

#if OPERAND_BYTES
/* packed[n] = bytes 4 n to 4 n + 3 of the block's queries, with queries in SIMD lanes; then their scales, and their
 * products with the mean of keys. */
NOINLINE void pack_block_queries(const struct arguments *restrict args,
                                 const struct query_block block, const __global storage *q,
                                 lanes *packed)
{
    const float scale = score_scale(args, block.h) * SCALE_UNIT;
    const __global float *const mean = key_mean(args, block.b, block.h / args->shape->group);

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        lanes row[ROUNDED(DIM_QK)], shift = 0.0f;
        ints most = 0;
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH)
            load_query_columns(args, block, q, m, d, row + d);
        for (int d = 0; d < DIM_QK; d++) {
            most = larger_magnitude(most, row[d]);
            if (HAS_KEY_MEANS)
                shift = FMA(row[d], (lanes)(mean[d]), shift);
        }
        /* As largest_magnitude() has it. */
        most = most < VECTOR(as_int)((lanes)(0x1p-100f)) ? 0 : most;
        const lanes largest = most >= 0x7f800000 ? (lanes)(NAN) : VECTOR(as_float)(most);
        const lanes inverse = most == 0 ? (lanes)(0.0f) : 127.0f / largest;
        for (int n = 0; n < QUERY_OPERANDS; n++) {
            ints word = 0;
            UNROLL
            for (int c = 0; c < 4 && 4 * n < ROUNDED(DIM_QK); c++)
                word |= (rounded_to_bytes(row[4 * n + c] * inverse) + 128 & 255) << 8 * c;
            packed[n * BLOCK_VECTORS + m] = VECTOR(as_float)(word);
        }
        packed[QUERY_OPERANDS * BLOCK_VECTORS + m] = largest / 127.0f * scale;
        packed[(QUERY_OPERANDS + 1) * BLOCK_VECTORS + m] = shift * scale;
    }
}
#elif OPERAND_TILES && DTYPE != DTYPE_BF16
/* packed[n] = pair n of the block's queries, with queries in SIMD lanes, part by part. */
NOINLINE void pack_block_queries(const struct arguments *restrict args,
                                 const struct query_block block, const __global storage *q,
                                 lanes *packed)
{
    for (int n = 0; n < Q_PARTS * QUERY_OPERANDS * BLOCK_VECTORS; n++)
        packed[n] = 0.0f;
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH], *to = packed + d / 2 * BLOCK_VECTORS + m;
            load_query_columns(args, block, q, m, d, x);
            for (int part = 0; part < Q_PARTS; part++, to += QUERY_OPERANDS * BLOCK_VECTORS)
                for (int c = 0; c < SIMD_WIDTH; c += 2) {
                    const lanes first = next_part(x + c), second = next_part(x + c + 1);
                    to[c / 2 * BLOCK_VECTORS] = pack_exact_pairs(first, second);
                }
        }
    }
}
#elif OPERAND_PAIRS
/* packed[n] = pair n of the block's queries, with queries in SIMD lanes. */
NOINLINE void pack_block_queries(const struct arguments *restrict args,
                                 const struct query_block block, const __global storage *q,
                                 lanes *packed)
{
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int n = 0; n < OPERANDS(DIM_QK); n += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH], *to = packed + n * BLOCK_VECTORS + m;
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++) {
                const long row = min(m * SIMD_WIDTH + r, block.queries - 1);
                x[r] = load_pairs_of_row(q + row * args->shape->q_stride[2] + 2 * n * q_step(args),
                                         q_step(args), DIM_QK - 2 * n);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[c * BLOCK_VECTORS] = x[c];
        }
    }
}
#else
/* packed[d] = the block's queries, scaled, with queries in SIMD lanes. */
NOINLINE void pack_block_queries(const struct arguments *restrict args,
                                 const struct query_block block, const __global storage *q,
                                 lanes *packed)
{
    const float scale = score_scale(args, block.h) * SCALE_UNIT;

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH], *to = packed + d * BLOCK_VECTORS + m;
            load_query_columns(args, block, q, m, d, x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[c * BLOCK_VECTORS] = x[c] * scale;
        }
    }
}
#endif

/* Stores rows block.i .. of o, at most BLOCK_M and not beyond QUERIES_END: packed times factor, or zeros
 * where the factor is negative. */
NOINLINE void unpack_outputs(const struct arguments *restrict args, const struct query_block block,
                             const lanes *packed, const lanes *factor, __global o_storage *o)
{
    const long rows = min(QUERIES_END(block) - block.i, (long)BLOCK_M);

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < DIM_V; d += SIMD_WIDTH) {
            const lanes *from = packed + d * BLOCK_VECTORS + m;
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                x[c] = factor[m] < 0.0f ? (lanes)(0.0f) : from[c * BLOCK_VECTORS] * factor[m];
            UNROLL
            for (int c = 0; HAS_INVARIANT && c < SIMD_WIDTH; c++)
                x[c] += 0.0f; /* keys that the query does not see may have made 0 of -0 */
            transpose(x);
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                if (m * SIMD_WIDTH + r < rows)
                    store_row(x[r],
                              o + (m * SIMD_WIDTH + r) * args->shape->o_stride[2] +
                                  d * o_step(args),
                              o_step(args), DIM_V - d);
        }
    }
}

/* Sets the prefetches that block n of a chunk issues beside the tile of keys before j; end is the
 * end of the chunk's keys. */
INLINE struct prefetch_streams streams_of_tile(const struct arguments *args,
                                               const struct query_block chunk, const int n,
                                               const long j, const long end,
                                               const __global k_storage *k,
                                               const __global v_storage *v)
{
    const long i = chunk.i + n * BLOCK_M, next = i + BLOCK_M * BLOCKS_PER_TILE;
    /* The window of the next chunk ends this many keys after this chunk's. */
    const long more = HAS_WINDOW_LEFT && HAS_WINDOW_RIGHT ? BLOCK_M * BLOCKS_PER_TILE : 0;
    const long row = j + n * (BLOCK_N / BLOCKS_PER_TILE);
    const long rows =
        rows_together(args, chunk.b, row,
                      min(min(end + more, chunk.e.keys) - row, (long)BLOCK_N / BLOCKS_PER_TILE));
    const long k_row = rows > 0 ? key_row(args, chunk.b, row, args->shape->k_stride) : 0;
    const long v_row = rows > 0 ? key_row(args, chunk.b, row, args->shape->v_stride) : 0;
    const long queries = j == end ? (long)BLOCK_M : 0;
    const __global uchar *of_k = (const __global uchar *)k_place(k, k_row);
    const __global uchar *of_v = (const __global uchar *)v_place(v, v_row);
    const __global uchar *after_k =
        (const __global uchar *)k_place(k, k_row + args->shape->k_stride[2]);
    const __global uchar *after_v =
        (const __global uchar *)v_place(v, v_row + args->shape->v_stride[2]);
    struct prefetch_streams streams;

    streams.stream[STREAM_K] = stream_of(of_k, after_k - of_k, UNIT_K, rows, STREAM_ROWS,
                                         ROW_BYTES(K_CACHE, k_storage, DIM_QK));
    streams.stream[STREAM_V] = stream_of(of_v, after_v - of_v, UNIT_V, rows, STREAM_ROWS,
                                         ROW_BYTES(V_CACHE, v_storage, DIM_V));
    streams.stream[STREAM_Q] =
        stream_of(args->q + row_offset(args->shape->q_stride, chunk.b, chunk.h, next),
                  args->shape->q_stride[2] * (long)sizeof(storage), UNIT_Q,
                  min(chunk.e.queries - next, queries), BLOCK_M, ROW_BYTES(0, storage, DIM_QK));
    streams.stream[STREAM_O] =
        stream_of(args->o + row_offset(args->shape->o_stride, chunk.b, chunk.h, i),
                  args->shape->o_stride[2] * (long)sizeof(o_storage), UNIT_O,
                  min(chunk.e.queries - i, queries), BLOCK_M, DIM_V * (int)sizeof(o_storage));
    return streams;
}
