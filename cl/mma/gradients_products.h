/* SPDX-License-Identifier: Apache-2.0 */
/* The first products of gradients, of a sub-group's owned rows with the streamed ones: q k^T and do v^T. */
#pragma once
#include "mma/gradients_place.h"
/* FINISH_BOTH() and FINISH() wait for all groups of products but the latest ones. Macros: functions took other registers.
 * complete_sums() waits for sums of the second products. */
#if HAS_TILE_PRODUCTS
#include "mma/warpgroup_tile.h"

/* The first of the warpgroup's owned rows in their tile, and the tile's number of rows. */
INLINE int first_owned(const struct place *here)
{
    return PRODUCER ? 0 : warpgroup_rows(here->first_row);
}

enum { OWNED_TILE = PRODUCER ? 64 : BLOCK_OWNED };

/* Starts the products of the sub-group's owned rows with the streamed ones, of `parts` parts each:
 * q k^T, and do v^T. */
INLINE void begin_first(const int parts, const struct place *here, float s[STREAMED_SUMS],
                        const int lane, __local float *exchange)
{
    begin_part_products(parts, here->owned_qk, OWNED_ELEMENTS(DIM_QK), first_owned(here),
                        OWNED_TILE, DIM_QK, here->qk, STREAMED_ELEMENTS(DIM_QK), BLOCK_STREAMED, s,
                        lane, exchange);
}

INLINE void begin_second(const int parts, const struct place *here, float dp[STREAMED_SUMS],
                         const int lane, __local float *exchange)
{
    begin_part_products(parts, here->owned_v, OWNED_ELEMENTS(DIM_V), first_owned(here), OWNED_TILE,
                        DIM_V, here->v, STREAMED_ELEMENTS(DIM_V), BLOCK_STREAMED, dp, lane,
                        exchange);
}

#define FINISH_BOTH(s, dp)                                                                         \
    do {                                                                                           \
        products_wait(0);                                                                          \
        sums_here(s, STREAMED_SUMS);                                                               \
        sums_here(dp, STREAMED_SUMS);                                                              \
    } while (0)
#define FINISH(sums, latest)                                                                       \
    do {                                                                                           \
        products_wait(latest);                                                                     \
        sums_here(sums, STREAMED_SUMS);                                                            \
    } while (0)

INLINE void complete_sums(float *sums, const int count)
{
    products_wait(0);
    sums_here(sums, count);
}
#else
INLINE void begin_first(const int parts, const struct place *here, float s[STREAMED_SUMS],
                        const int lane, __local float *exchange)
{
    multiply_fragment_rows(parts, here->owned_qk + here->first_row * OWNED_STRIDE(DIM_QK), here->qk,
                           DIM_QK, s, lane, exchange);
}

INLINE void begin_second(const int parts, const struct place *here, float dp[STREAMED_SUMS],
                         const int lane, __local float *exchange)
{
    multiply_fragment_rows(parts, here->owned_v + here->first_row * OWNED_STRIDE(DIM_V), here->v,
                           DIM_V, dp, lane, exchange);
}

#define FINISH_BOTH(s, dp)
#define FINISH(sums, latest)

INLINE void complete_sums(float *sums, const int count)
{
}
#endif

/* Computes the products of the sub-group's owned rows with the streamed ones; they are complete
 * after FINISH_BOTH(). */
INLINE void begin_both(const struct place *here, float s[STREAMED_SUMS], float dp[STREAMED_SUMS],
                       const int lane, __local float *exchange)
{
    begin_first(OPERAND_PARTS, here, s, lane, exchange);
    begin_second(OPERAND_PARTS, here, dp, lane, exchange);
}

#if OPERAND_PARTS > 1
/* Replaces products that are NaNs by those of first parts: an Inf's other parts, and its products
 * with them, are not those of f32. of_v: products are do v^T, not q k^T. */
INLINE void replace_products(const bool of_v, const struct place *here,
                             float products[STREAMED_SUMS], const int lane, __local float *exchange)
{
    struct place there = *here;
    float first[STREAMED_SUMS];
    int moved =
        /* hidden from the compiler, so that it does not compute and keep addresses before the loop
         * */
        0;

#if HAS_TILE_PRODUCTS && !EMULATE
    __asm volatile("" : "+r"(moved));
#endif
    there.owned_qk += moved;
    there.owned_v += moved;
    there.qk += moved;
    there.v += moved;
    FINISH(products, 0);
    if (of_v)
        begin_second(1, &there, first, lane, exchange);
    else
        begin_first(1, &there, first, lane, exchange);
    FINISH(first, 0);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        products[x] = products[x] != products[x] ? first[x] : products[x];
}

/* Does so in the second pass. (PoCL 3.1 miscompiles a barrier in an `if`.) */
#define REPLACE_PRODUCTS(again, of_v, here, products)                                              \
    do {                                                                                           \
        if (EMULATE || (again))                                                                    \
            replace_products(of_v, here, products, lane, exchange);                                \
    } while (0)
#else
#define REPLACE_PRODUCTS(again, of_v, here, products)
#endif
