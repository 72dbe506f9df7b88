/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a row of forward attention on GPUs, from its row_max and row_sum. */
#pragma once
#include "common/sequence.h"
#include "gpu/tile_exp.h"

/* A row's outputs are `factor` times its sums, or zero. */
struct row_end {
    float factor, highest, total;
    bool zero;
};

/* The end of a row with weights relative to row_max. A total of 0 means that no key is visible or
 * all scores are -inf; a NaN is passed on to o. */
static inline struct row_end finish_row(const struct arguments *args, const long h,
                                        const bool sees_any, const float row_max,
                                        const float row_sum)
{
    struct row_end row = {1.0f, row_max, row_sum, false};

#if HAS_SINKS
    const float sink = args->sinks[h];
    row.highest = fmax(row_max, sink);
    row.factor = power_of_two((row_max - finite_maximum(row.highest)) * M_LOG2E_F);
    row.total =
        row_sum * row.factor + power_of_two((sink - finite_maximum(row.highest)) * M_LOG2E_F);
#endif
    row.zero = !sees_any || row.total == 0.0f;
    row.factor /= row.total;
    return row;
}

/* Stores a row's lse, if it is requested; bh numbers the row's head h among all batches' heads. */
static inline void store_lse(const struct arguments *args, const struct row_end row, const long bh,
                             const long h, const long i)
{
#if HAS_LSE
    args->lse[lse_head(args, bh, h) + i] = row.zero ? -INFINITY : row.highest + log(row.total);
#endif
}
