/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a bias on CPUs. The scores are computed again, and dS is summed over the
 * dimensions that the bias broadcasts over. */
#pragma once
#include "score/backward_weights.h"

/* Computes a tile of dbias, or its sum over the dimensions that the bias broadcasts over. Local (1,
 * 1, 1), global (blocks of keys, or 1; tiles of queries, or 1; heads * batch of the bias). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward_bias(PARAMETERS_backward_bias)
{
    const struct arguments arguments = ARGUMENTS_backward_bias, *const args = &arguments;
    const int over_b = args->shape->bias_stride[0] == 0, over_h = args->shape->bias_stride[1] == 0;
    const int over_i = args->shape->bias_stride[2] == 0, over_j = args->shape->bias_stride[3] == 0;
    const long bias_heads = over_h ? 1 : args->shape->heads;
    const long own_b = get_global_id(2) / bias_heads, own_h = get_global_id(2) % bias_heads;
    const long own_i = get_global_id(1) * BLOCK_M, own_j = get_global_id(0) * BLOCK_N;
    lanes sum[BLOCK_M * BLOCK_VECTORS], unused = 0.0f;
    struct key_block block;
    struct query_tile tile;
    struct head head;

    configure_tiles();
    for (int n = 0; n < BLOCK_M * BLOCK_VECTORS; n++)
        sum[n] = 0.0f;
    for (head.b = own_b; head.b < (over_b ? args->shape->batch : own_b + 1); head.b++) {
        head.e = extent_of(args, head.b);
        for (head.h = own_h; head.h < (over_h ? args->shape->heads : own_h + 1); head.h++) {
            if (HAS_BLOCKS) {
                head.keys_end = args->shape->seq_kv;
                head.bits =
                    block_bits_of(args, args->workspace + marks_begin(args), head.b, head.h);
            }
            for (long j = own_j; j < (over_j ? args->shape->seq_kv : own_j + 1); j += BLOCK_N) {
                load_key_block(args, head, j, &block);
                const long end = min(end_query(args, head.e, j, block.keys),
                                     over_i ? args->shape->seq_q : own_i + BLOCK_M);
                const long begin = first_query(args, head.e, j);
                for (long i = own_i; i < end; i += BLOCK_M) {
                    const int count = (int)min(end - i, (long)BLOCK_M);
                    if (i + count <= begin)
                        continue;
                    load_query_tile(args, head, i, count, args->workspace, &tile);
                    compute_weights(1, 1, args, head, &block, (struct row_range){0, count}, &tile,
                                    &unused);
                    for (int n = 0; n < count; n++)
                        for (int m = 0; m < BLOCK_VECTORS; m++)
                            sum[(over_i ? 0 : n * BLOCK_VECTORS) + m] +=
                                tile.ds[n * BLOCK_VECTORS + m];
                }
            }
        }
    }
    __global bias_storage *to = args->dbias +
                                row_offset(args->shape->bias_stride, own_b, own_h, own_i) +
                                own_j * args->shape->bias_stride[3];
    for (int n = 0; n < (over_i ? 1 : (int)min(args->shape->seq_q - own_i, (long)BLOCK_M)); n++) {
        const float *columns = (const float *)(sum + n * BLOCK_VECTORS);
        float total = 0.0f;
        for (int j = 0;
             j < (over_j ? BLOCK_N : (int)min(args->shape->seq_kv - own_j, (long)BLOCK_N)); j++) {
            total += columns[j];
            if (!over_j)
                store1_of(BIAS_DTYPE, columns[j], to,
                          n * args->shape->bias_stride[2] + j * args->shape->bias_stride[3]);
        }
        if (over_j)
            store1_of(BIAS_DTYPE, total, to, n * args->shape->bias_stride[2]);
    }
    release_tiles();
}
