/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of what a score function loads, on GPUs. The scores and their gradients are computed once more.
 *
 * A group has LOAD_ROWS queries of a head at a time, and THREADS keys, one a work-item. Each pair's element and term go to
 * local memory; then each work-item reads those of all pairs, in ascending order, and adds up those of its own elements, of
 * which it has every THREADS-th. So no two work-items add to an element of the group's array, and the order of sums is fixed.
 *
 * Who includes this defines THREADS. */
#pragma once
#include "gpu/backward_tile.h"
#include "gpu/local_barrier.h"
#include "gpu/pair_dropout.h"

#if HAS_DFUNCTION
/* The sum of terms for one element of dfunction. It is stored when the element changes. */
struct load_sum {
    int place;
    float sum;
};

/* The products of `queries` queries of the tile with key j: of q and k, and of do and v. */
INLINE void multiply_pairs(const struct arguments *args, const struct tile t, const long j,
                           float scores[LOAD_ROWS], float weights[LOAD_ROWS])
{
    const long kv_head = t.h / args->shape->group;
    const __global storage *q = args->q + row_offset(args->shape->q_stride, t.b, t.h, t.i0);
    const __global storage *d_o = args->d_o + row_offset(args->shape->d_o_stride, t.b, t.h, t.i0);
    const __global k_storage *k = args->k + row_offset(args->shape->k_stride, t.b, kv_head, j);
    const __global v_storage *v = args->v + row_offset(args->shape->v_stride, t.b, kv_head, j);

    for (int n = 0; n < LOAD_ROWS; n++)
        scores[n] = weights[n] = 0.0f;
    for (int d = 0; d < DIM_QK; d++) {
        const float y = load1_of(DTYPE, k, d * k_step(args));
        for (int n = 0; n < LOAD_ROWS; n++)
            scores[n] = MULTIPLY_ADD(
                load1_of(DTYPE, q,
                         min(n, t.queries - 1) * args->shape->q_stride[2] + d * q_step(args)),
                y, scores[n]);
    }
    for (int d = 0; d < DIM_V; d++) {
        const float y = load1_of(DTYPE, v, d * v_step(args));
        for (int n = 0; n < LOAD_ROWS; n++)
            weights[n] = MULTIPLY_ADD(
                load1_of(DTYPE, d_o,
                         min(n, t.queries - 1) * args->shape->d_o_stride[2] + d * do_step(args)),
                y, weights[n]);
    }
}

/* The element that a load has loaded for a pair, of the tile's query n and key j, and its term; -1 if the pair is hidden. dp:
 * the product of do and v. */
INLINE struct load_sum load_term(const struct arguments *args, const struct tile t, const int load,
                                 const int n, const long j, const float product, const float dp)
{
    struct score_tile pair = score_tile_at(args, t.e, t.b, t.h, t.i0 + n, j, 1, 1, 1L);
    struct load_sum term = {-1, 0.0f};

    if (HAS_BLOCKS)
        find_blocks(t.bits, t.i0 + n, j, false, &pair);
    struct score s = score_of(args, pair, 0, 0, product);
    if (!hide(args, pair, in_window(pair, 0, 0), 0, 0, &s))
        return term;
    const struct function_pair at = function_pair_in(pair, 0, 0);
    const float ds = pair_gradient_of(s, dp, statistic_of(args, t.b, t.h, t.i0 + n),
                                      dropout_factor(args, t.b, t.h, t.i0 + n, j) != 0.0f)
                         .ds;
    term.place = function_place(args, load, at, s.softcapped);
    term.sum = ds * function_by_load(args, load, at, s.softcapped);
    return term;
}

/* Groups share blocks of LOAD_ROWS queries, numbered by (blocks, heads, batches). */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_loads(PARAMETERS_backward_loads)
{
    const struct arguments whole = ARGUMENTS_backward_loads;
    __local int owners[LOAD_ROWS * THREADS], places[LOAD_ROWS * THREADS];
    __local float terms[LOAD_ROWS * THREADS];
    const int item = get_local_id(0);
    const long elements = function_gradients(&whole), blocks = count_load_blocks(&whole);
    const long heads = whole.shape->heads, all = whole.shape->batch * heads * blocks;
    __global float *const sums =
        whole.workspace + place_load_sums(&whole).begin + get_group_id(0) * elements;
    struct load_sum own = {-1, 0.0f};

    for (long n = item; n < elements; n += THREADS)
        sums[n] = 0.0f;
    for (long block = get_group_id(0); block < all; block += get_num_groups(0)) {
        struct arguments arguments = whole;
        struct tile t;
        t.b = block / blocks / heads;
        t.h = block / blocks % heads;
        t.i0 = block % blocks * LOAD_ROWS;
        ENTER_SEQUENCE(args, &arguments, t.b);
        t.e = extent_of(args, t.b);
        t.queries = (int)clamp(t.e.queries - t.i0, 0L, (long)LOAD_ROWS);
        find_head(args, &t);
        const long begin = first_key(args, t.e, t.i0);
        const long end = t.queries > 0 ? end_key_of_queries(args, t) : 0;
        for (long j0 = begin; j0 < end; j0 += THREADS) {
            const long j = min(j0 + item, end - 1);
            const int queries = j0 + item < end ? t.queries : 0;
            float scores[LOAD_ROWS], weights[LOAD_ROWS];
            multiply_pairs(args, t, j, scores, weights);
            for (int load = 0; load < SCORE_FUNCTION_LOADS; load++) {
                LOCAL_BARRIER(); /* all have read the old contents */
                for (int n = 0; n < LOAD_ROWS; n++) {
                    struct load_sum term = {-1, 0.0f};
                    if (n < queries)
                        term = load_term(args, t, load, n, j, scores[n], weights[n]);
                    owners[n * THREADS + item] = term.place < 0 ? -1 : term.place % THREADS;
                    places[n * THREADS + item] = term.place;
                    terms[n * THREADS + item] = term.sum;
                }
                LOCAL_BARRIER(); /* all terms are there */
                for (int n = 0; n < LOAD_ROWS * THREADS; n++) {
                    if (owners[n] != item)
                        continue;
                    if (places[n] != own.place) {
                        if (own.place >= 0)
                            sums[own.place] += own.sum;
                        own = (struct load_sum){places[n], 0.0f};
                    }
                    own.sum += terms[n];
                }
            }
        }
    }
    if (own.place >= 0)
        sums[own.place] += own.sum;
}
#endif
