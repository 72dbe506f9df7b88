/* SPDX-License-Identifier: Apache-2.0 */
/* Where a work-group of gradients by matrix instructions has its rows in local memory. */
#pragma once
#include "mma/gradients_fragments.h"
#include "mma/fragment_gradients.h"

/* The places of a work-group's rows in local memory, and this sub-group's rows. */
struct place {
    __local ushort *owned_qk, *owned_v, *qk, *v; /* qk, v: the streamed rows */
    int lane, first_row, dim_group;
};

INLINE struct place find_place(__local uint4 *tiles, const uint thread)
{
    __local ushort *const all = (__local ushort *)tiles;
    const int sub = thread / FRAGMENT_LANES;
    const int own =
        PRODUCER ? sub / 4 * 64 : 0; /* rows of warpgroups before this one, in tiles of their own */
    const struct place here = {all + OWNED_QK_AT + own * OWNED_STRIDE(DIM_QK),
                               all + OWNED_V_AT + own * OWNED_STRIDE(DIM_V),
                               all + STREAMED_QK_AT,
                               all + STREAMED_V_AT,
                               thread % FRAGMENT_LANES,
                               sub / DIM_GROUPS * M_FRAGMENTS * FRAGMENT_QUERIES,
                               sub % DIM_GROUPS};

    return here;
}
