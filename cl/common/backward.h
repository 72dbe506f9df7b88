/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of backward kernels: steps, and the layout of the workspace. Besides the macros
 * that common.h lists, the host defines:
 *   UNIT_DO UNIT_DQ UNIT_DK UNIT_DV    1: the innermost stride is 1
 *   HAS_DBIAS HAS_DSLOPES HAS_DSINKS HAS_DLSE   0 or 1
 * SCORE_UNIT is the factor of scores: that of score/score_unit.h on CPUs, else 1. */
#pragma once
#include "common/common.h"
#include "common/sequence.h"
#include "families/sizes.h"
#ifndef SCORE_UNIT
#define SCORE_UNIT 1.0f
#endif

INLINE long do_step(const struct arguments *args)
{
    return UNIT_DO ? 1 : args->shape->d_o_stride[3];
}

INLINE long dq_step(const struct arguments *args)
{
    return UNIT_DQ ? 1 : args->shape->dq_stride[3];
}

INLINE long dk_step(const struct arguments *args)
{
    return UNIT_DK ? 1 : args->shape->dk_stride[3];
}

INLINE long dv_step(const struct arguments *args)
{
    return UNIT_DV ? 1 : args->shape->dv_stride[3];
}

/* The number of row (b, h, i) among the workspace's rows, and its index in the packed lse. */
static inline long row_of(const struct arguments *args, const long b, const long h, const long i)
{
    return (b * args->shape->heads + h) * longest_q(args) + i;
}

static inline long lse_of(const struct arguments *args, const long b, const long h, const long i)
{
    return lse_head(args, b * args->shape->heads + h, h) + i;
}

/* ---- statistics of rows ----------------------------------------------------------------------- */

/* The statistics that backward_rows writes for each row, at the begin of the workspace: -lse, in
 * the unit of the scores, -delta / keep, and the factor of the weights exp(s - lse), as an exponent of 2
 * and as a number. keep is 1 on CPUs; on GPUs it is that of dropout, which weights then have from the start.
 *
 * lse is one float, and a large one loses the low bits: of n scores of -1e30 it loses all of
 * log(n). The weights exp(s - lse) then share an error, a factor, which their sum tells. It is
 * computed where |lse| is large (is_large_lse()); other rows lose little beside other errors. */
enum { MINUS_LSE, MINUS_DELTA, MISSING_POWER, MISSING_FACTOR };

static inline bool is_large_lse(const float minus_lse)
{
    const float large =
        DTYPE == DTYPE_F32 || HAS_STRICT ? 64.0f : 1024.0f; /* weights are rounded to 16 bits */

    return fabs(minus_lse) >= large * SCORE_UNIT && fabs(minus_lse) < INFINITY;
}

/* Returns the power of 2 that scales the sum of a row's weights to 1. Returns 0 if the sum is
 * further from 1 than rounding of lse and scores explains: lse then covers more keys than this call
 * has. */
static inline float missing_power(const float minus_lse, const float sum)
{
    const float power = -M_LOG2E_F * log(sum);
    const float explained = (DIM_QK + 16) * 0x1p-24f * M_LOG2E_F / SCORE_UNIT * fabs(minus_lse);

    return fabs(power) <= explained ? power : 0.0f;
}

/* Computes dot(do[i], o[i]) in four partial sums, since each addition waits for the one before. */
static inline float row_delta(const struct arguments *args, const long b, const long h,
                              const long i)
{
    float4 sums = 0.0f;

    const __global o_storage *o = args->o + row_offset(args->shape->o_stride, b, h, i);
    const __global storage *d_o = args->d_o + row_offset(args->shape->d_o_stride, b, h, i);
    for (int d = 0; d < DIM_V / 4 * 4; d += 4) {
        const float4 x = (float4)(load1_of(O_DTYPE, o, d * o_step(args)),
                                  load1_of(O_DTYPE, o, (d + 1) * o_step(args)),
                                  load1_of(O_DTYPE, o, (d + 2) * o_step(args)),
                                  load1_of(O_DTYPE, o, (d + 3) * o_step(args)));
        const float4 y = (float4)(load1_of(DTYPE, d_o, d * do_step(args)),
                                  load1_of(DTYPE, d_o, (d + 1) * do_step(args)),
                                  load1_of(DTYPE, d_o, (d + 2) * do_step(args)),
                                  load1_of(DTYPE, d_o, (d + 3) * do_step(args)));
        sums = FMA(x, y, sums);
    }
    for (int d = DIM_V / 4 * 4; d < DIM_V; d++)
        sums.x = FMA(load1_of(O_DTYPE, o, d * o_step(args)),
                     load1_of(DTYPE, d_o, d * do_step(args)), sums.x);
    return (sums.x + sums.y) + (sums.z + sums.w);
}

/* Writes the statistics of row i with a factor of keep; returns -lse in the unit of scores. product: dot(do[i], o[i]).
 * If all visible scores of a row are -inf its weights are 0. */
static inline float write_statistics(const struct arguments *args, const long b, const long h,
                                     const long i, const float lse, const float product,
                                     const float keep)
{
    const float base = lse * SCORE_UNIT;
    const float minus_lse = base == -INFINITY ? base : -base;
    const float delta =
        !HAS_DLSE || lse == -INFINITY ? product : product - args->dlse[lse_of(args, b, h, i)];
    const float4 x = (float4)(minus_lse, -delta / keep, log2(keep), keep);
    __global float *const to = args->workspace + ROW_STATISTICS * row_of(args, b, h, i);

    if ((size_t)to % sizeof x == 0)
        *(__global float4 *)to = x;
    else
        vstore4(x, 0, to);
    return minus_lse;
}

/* Writes the factor of a row's weights; sum: the sum of exp(s - lse) over the row. */
static inline void write_missing(const struct arguments *args, const long b, const long h,
                                 const long i, const float sum, const float keep)
{
    __global float *statistics = args->workspace + ROW_STATISTICS * row_of(args, b, h, i);
    const float power = missing_power(statistics[MINUS_LSE], sum);

    statistics[MISSING_POWER] = power + log2(keep);
    statistics[MISSING_FACTOR] = exp2(power) * keep;
}

/* A row's part of the gradient of its head's sink. A row without visible keys has no weights, and
 * its sink has none. */
static inline float sink_term(const float sink, const float lse, const __global float *statistics)
{
    return lse == -INFINITY
               ? 0.0f
               : exp(sink - lse) * statistics[MISSING_FACTOR] * statistics[MINUS_DELTA];
}
