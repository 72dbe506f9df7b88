/* Rows of the tensors: queries and outputs of a block, which are turned so that lanes are queries,
 * and keys and values of a tile, which are asked for ahead of their turn.
 *
 * Before including this: common.cl, WIDTH, MV, BN and BLOCKS. */
#ifndef CLATTN_LANE_ROWS_H
#define CLATTN_LANE_ROWS_H
#include "lane_changes.h"
#include "prefetch.h"
#include "quantized_lanes.h"

/* q[d] = the block's queries, scaled, as lanes. */
INLINE void pack_queries(const struct attention_shape a, const struct place block,
                         const __global storage *q, lanes *packed)
{
    const float scale = HAS_SOFTCAP ? a.scale : a.scale * UNIT;

    for (int m = 0; m < MV; m++) {
        for (int d = 0; d < DIM_QK; d += WIDTH) {
            lanes x[WIDTH];
            UNROLL
            for (int r = 0; r < WIDTH; r++) {
                const long row = min(m * WIDTH + r, block.queries - 1);
                x[r] = load_row(q + row * a.q_stride[2] + d * Q_STEP, Q_STEP, DIM_QK - d);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < WIDTH; c++)
                packed[(d + c) * MV + m] = x[c] * scale;
        }
    }
}

/* Rows block.i .. of o, at most BM and not beyond seq_q; zeros where the factor is negative. */
INLINE void unpack_outputs(const struct attention_shape a, const struct place block,
                           const lanes *packed, const lanes *factor, __global storage *o)
{
    const long rows = min(a.seq_q - block.i, (long)BM);

    for (int m = 0; m < MV; m++) {
        for (int d = 0; d < DIM_V; d += WIDTH) {
            lanes x[WIDTH];
            UNROLL
            for (int c = 0; c < WIDTH; c++) {
                const lanes y = packed[(d + c) * MV + m];
                x[c] = factor[m] < 0.0f ? (lanes)(0.0f) : y * factor[m];
            }
            transpose(x);
            UNROLL
            for (int r = 0; r < WIDTH; r++)
                if (m * WIDTH + r < rows)
                    store_row(x[r], o + (m * WIDTH + r) * a.o_stride[2] + d * O_STEP, O_STEP,
                              DIM_V - d);
        }
    }
}

/* Lines that a row takes in memory, where its values lie side by side. */
#define ROW_LINES(cache, dim)                                                                      \
    (((cache) ? (dim) / BLOCK_VALUES * BLOCK_BYTES(cache) : (dim) * (int)sizeof(storage)) + 63) / 64

/* Asks for those of at most a tile's keys and values, j .. end - 1, that are block n's share. */
INLINE void prefetch_rows(const struct attention_shape a, const __global k_storage *k,
                          const __global v_storage *v, const long j, const long end, const int n)
{
    for (long row = j + n; row < min(j + BN, end); row += BLOCKS) {
#if UNIT_K
        prefetch_lines((const __global uchar *)K_PLACE(k, row * a.k_stride[2]),
                       ROW_LINES(K_CACHE, DIM_QK));
#endif
#if UNIT_V
        prefetch_lines((const __global uchar *)V_PLACE(v, row * a.v_stride[2]),
                       ROW_LINES(V_CACHE, DIM_V));
#endif
    }
}

#endif
