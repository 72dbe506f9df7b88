/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that a work-group of gradients by matrix instructions owns and streams, and what non-finite ones add. */
#pragma once
#include "mma/gradients_fragments.h"
#include "mma/fragment_gradients.h"
#include "mma/gradients_place.h"
#include "mma/gradients_products.h"

/* ---- owned rows --------------------------------------------------------------------------- */

#if PRODUCER /* a warpgroup's own rows, possibly none */
#define STAGE_OWN(owned, tile, dim, unit)                                                          \
    do {                                                                                           \
        struct matrix m = owned;                                                                   \
        m.p += here.first_row / 64 * 64 * m.row_step;                                              \
        m.rows -= here.first_row / 64 * 64;                                                        \
        FILL_PARTS(m, tile, OWNED_STRIDE(dim), 64, COLUMNS(dim), dim, unit, OWNED_ELEMENTS(dim));  \
    } while (0)
#else
#define STAGE_OWN(owned, tile, dim, unit) STAGE_OWNED(owned, tile, dim, unit)
#endif

/* Completes owned rows where no barrier of the first streamed rows does it. */
INLINE void owned_complete(void)
{
    if (PRODUCER) {
        copies_wait();
        computing_barrier();
    }
}

/* The place of streamed rows of stage `number`. */
INLINE struct place place_of_stage(struct place here, __local uint4 *tiles, const int number)
{
    here.qk = (__local ushort *)tiles + STREAMED_QK_AT + number * STAGE_ELEMENTS;
    here.v = (__local ushort *)tiles + STREAMED_V_AT + number * STAGE_ELEMENTS;
    return here;
}

/* Returns whether some pair of a tile may be masked or missing. */
INLINE bool hides_some(const struct arguments *args, const struct tile t, const int most_queries,
                       const int most_keys)
{
    return t.queries < most_queries || t.keys < most_keys || is_partial(args, t);
}

/* Returns whether key j is visible to query i and the query has a finite lse. */
INLINE bool counts(const struct arguments *args, const struct tile t, const long i, const long j)
{
    return statistic_of(args, t.b, t.h, i).s0 != -INFINITY &&
           visible(args, t.e, first_key(args, t.e, i), end_key(args, t.e, i), t.b, t.h, i, j);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Adds to the gradients of owned keys the Infs and NaNs of queries from begin to end that were staged as
 * 0. One of q makes all of its row's scores such, so that nothing but NaN can come of it. */
INLINE void add_nonfinite_queries(const struct arguments *args, struct tile t, const long begin,
                                  const long end)
{
    const long kv_head = t.h / args->shape->group;

    for (int x = this_thread_again(); x < t.keys * (DIM_QK + DIM_V); x += COMPUTING) {
        const long j = t.j0 + x / (DIM_QK + DIM_V);
        const int column = x % (DIM_QK + DIM_V);
        const bool of_k = column < DIM_QK;
        const int d = of_k ? column : column - DIM_QK;
        float extra = 0.0f;
        for (t.h = kv_head * args->shape->group; t.h < (kv_head + 1) * args->shape->group; t.h++)
            for (long i = begin; i < end; i++) {
                const float y = of_k ? load1_of(DTYPE, args->q,
                                                row_offset(args->shape->q_stride, t.b, t.h, i) +
                                                    d * q_step(args))
                                     : load1_of(DTYPE, args->d_o,
                                                row_offset(args->shape->d_o_stride, t.b, t.h, i) +
                                                    d * do_step(args));
                if (y * 0.0f != 0.0f && counts(args, t, i, j))
                    extra += of_k ? NAN : y * dropout_factor(args, t.b, t.h, i, j);
            }
        __global o_storage *const to =
            of_k
                ? args->dk + row_offset(args->shape->dk_stride, t.b, kv_head, j) + d * dk_step(args)
                : args->dv + row_offset(args->shape->dv_stride, t.b, kv_head, j) +
                      d * dv_step(args);
        if (extra != 0.0f)
            store_result(load1_of(O_DTYPE, to, 0) + extra, to);
    }
}

/* The rows of q and do of a tile's queries. */
INLINE struct matrix tile_queries(const struct arguments *args, const struct tile t)
{
    return q_rows(args, t.b, t.h, t.i0, t.queries);
}

INLINE struct matrix tile_gradients(const struct arguments *args, const struct tile t)
{
    return do_rows(args, t.b, t.h, t.i0, t.queries);
}

/* The rows of k and v of a tile's keys. */
INLINE struct matrix rows_of_keys(const struct arguments *args, const struct tile t)
{
    return k_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys);
}

INLINE struct matrix tile_values(const struct arguments *args, const struct tile t)
{
    return v_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys);
}

/* The tile of queries from i0 on, of those before `end`; of keys from j0 on. */
INLINE struct tile queries_from(struct tile t, const long i0, const long end)
{
    t.i0 = i0;
    t.queries = min(end - i0, (long)BLOCK_STREAMED);
    return t;
}

INLINE struct tile keys_from(struct tile t, const long j0, const long end)
{
    t.j0 = j0;
    t.keys = min(end - j0, (long)BLOCK_STREAMED);
    return t;
}

/* Stages the statistics of a tile's queries. */
INLINE void stage_statistics(const struct arguments *args, const struct tile t,
                             __local float4 *statistics)
{
    for (int r = FILL_THREAD; r < BLOCK_STREAMED; r += FILL_THREADS)
#if HAS_COPIES
        copy_three((__local float *)(statistics + r), place_of_statistic(args, t.b, t.h, t.i0 + r));
#else
        statistics[r] = statistic_of(args, t.b, t.h, t.i0 + r);
#endif
}
