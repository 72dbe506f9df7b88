/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles that the whole work-group copies and waits for, for gradients_passes.h and gradients_wide.h. */
#pragma once
#include "mma/gradients_rows.h"

#define STREAM ((void)0) /* there is no producer to keep state for */

/* Whether the second product needs streamed rows in another form than the first: packed, or without
 * Infs and NaNs. PoCL 3.1 miscompiles a barrier in an `if` (backward_gpu_item.cl). */
INLINE bool restages(const bool again)
{
    return PACKED_VALUES || again;
}

INLINE void restage_barrier(const bool again)
{
    if (EMULATE || restages(again))
        LOCAL_BARRIER();
}

/* Stages a tile of queries, its statistics and what dropout keeps; the barrier after it completes them. */
INLINE void stage_query_tile(const struct arguments *args, const struct tile t,
                             const struct matrix streamed_q, const struct matrix streamed_do,
                             const struct place here, __local float4 *statistics,
                             const kept_tile kept, const int number)
{
    STAGE_STREAMED(streamed_q, here.qk, DIM_QK, UNIT_Q);
    STAGE_STREAMED(streamed_do, here.v, DIM_V, UNIT_DO);
    stage_statistics(args, t, statistics);
    draw_kept_tile(true, args, t, kept, number);
}

/* Stages a tile of keys and what dropout keeps. */
INLINE void stage_key_tile(const struct arguments *args, const struct tile t,
                           const struct place here, const kept_tile kept, const int number)
{
    STAGE_STREAMED(rows_of_keys(args, t), here.qk, DIM_QK, UNIT_K);
    STAGE_STREAMED(tile_values(args, t), here.v, DIM_V, UNIT_V);
    draw_kept_tile(false, args, t, kept, number);
}
