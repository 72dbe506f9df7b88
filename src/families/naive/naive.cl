/* SPDX-License-Identifier: Apache-2.0 */
/* naive: forward attention as the formula says it, the page to read first. One work-item has one query:
 * it walks over the keys once, with the online softmax, and keeps its row of o in private memory.
 *
 *     s       = q . k, then scale, softcap, bias, ALiBi and masks        (cl/score/score.h)
 *     row_max = the largest s so far; earlier sums are rescaled by exp(old - new)
 *     row_sum = sum of exp(s - row_max)
 *     o       = sum of exp(s - row_max) v / row_sum,   lse = row_max + log(row_sum)
 *
 * No data is read by more than one work-item, nothing is a vector, and local memory is not used: the
 * other families do the same sums with tiles in local memory (fused_gpu_item), in registers (fused_cpu)
 * and with matrix units (fused_gpu_mma). The rules for all kernels of this library apply here, too:
 *
 * Parameters  PARAMETERS_naive: those of the operands that the problem has, made by the host.
 * NDRange     one-dimensional, a work-item for each (batch, head, query), rounded up.
 * Masked      A masked key is not read: a weight of 0 would not silence a NaN in its value.
 * Tunables    none. */
#include "common/key_rows.h"
#include "common/sequence.h"
#include "score/score.h"
#include "common/quantized.h"
#define RANDOM_LANES 4
#include "common/philox_lanes.h"
#include "common/dropout.h"

__kernel void naive(PARAMETERS_naive)
{
    struct arguments arguments = ARGUMENTS_naive;
    ENTER_SEQUENCE(args, &arguments,
                   get_global_id(0) / longest_q(&arguments) / arguments.shape->heads);
    const long row = get_global_id(0), bh = row / longest_q(args), i = row % longest_q(args);
    const long b = bh / args->shape->heads, h = bh % args->shape->heads;
    float row_max = -INFINITY, row_sum = 0.0f, sums[DIM_V];

    if (b >= args->shape->batch) /* the work-item is beyond the last row */
        return;
    LEAVE_IF_BEYOND(i, args->shape->seq_q);
    const struct extent e = extent_of(args, b);
    const long first = first_key(args, e, i), end = end_key(args, e, i);
    const float scale = score_scale(args, h);
    const long q_row = row_offset(args->shape->q_stride, b, h, i);
    const long k_head = head_offset(args->shape->k_stride, cache_batch(b), h / args->shape->group);
    const long v_head = head_offset(args->shape->v_stride, cache_batch(b), h / args->shape->group);
    const long o_row = row_offset(args->shape->o_stride, b, h, i);

    for (int d = 0; d < DIM_V; d++)
        sums[d] = 0.0f;
    for (long j = first; j < end; j++) {
        if (!visible(args, e, first, end, b, h, i, j))
            continue;
        if (!has_row(args, b, j))
            continue;
        const long k_row = k_head + key_row(args, b, j, args->shape->k_stride);
        const long v_row = v_head + key_row(args, b, j, args->shape->v_stride);
        float dot = 0.0f;
        for (int d = 0; d < DIM_QK; d++)
            dot = FMA(load1_of(DTYPE, args->q, q_row + d * q_step(args)),
                      load_k(args->k, k_row, d * k_step(args)), dot);
        dot *= scale_of_row(k_scales_from(args, b, h / args->shape->group, j), 0);
        const float s = biased_score(args, e, first, end, b, h, i, j, SOFTCAPPED(scale * dot));
        const float new_max = fmax(row_max, s);
        const float base = new_max == -INFINITY ? 0.0f : new_max; /* -inf - -inf would be NaN */
        const float rescale = exp(row_max - base);
        float weight = exp(s - base);
        row_max = new_max;
        row_sum = FMA(row_sum, rescale, weight);
#if HAS_DROPOUT
        float4 factor[4]; /* the factors of four keys; row_sum, and so lse, is without dropout */
        dropout_factors(args, dropout_head(args, b, h), (uint4)(uint)i, (uint4)(uint)(j / 4),
                        factor);
        weight *= factor[j % 4].x;
#endif
        weight *= scale_of_row(v_scales_from(args, b, h / args->shape->group, j), 0);
        for (int d = 0; d < DIM_V; d++)
            sums[d] = FMA(weight, load_v(args->v, v_row, d * v_step(args)), sums[d] * rescale);
    }

    const bool sees_none = row_sum == 0.0f;
    float rescale = 1.0f;
#if HAS_SINKS
    const float sink = args->sinks[h], new_max = fmax(row_max, sink);
    rescale = exp(row_max - new_max);
    row_sum = FMA(row_sum, rescale, exp(sink - new_max));
    row_max = new_max;
#endif
    for (int d = 0; d < DIM_V; d++)
        store1_of(O_DTYPE, sees_none ? 0.0f : sums[d] * rescale / row_sum, args->o,
                  o_row + d * o_step(args));
#if HAS_LSE
    args->lse[lse_head(args, bh, h) + i] = sees_none ? -INFINITY : row_max + log(row_sum);
#endif
}
