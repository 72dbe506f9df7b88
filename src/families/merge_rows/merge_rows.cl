/* SPDX-License-Identifier: Apache-2.0 */
/* merge_rows: the results of attention over disjoint sets of keys become that over all of them.
 *
 * A state is a row o and its lse, the natural logarithm of the sum of exponentials that o was divided
 * by. With n states s of each row (b, h, i) and most = max lse_s:
 *
 *     w_s = exp(lse_s - most) / sum_s exp(lse_s - most)
 *     o   = sum_s w_s o_s           lse = most + log(sum_s exp(lse_s - most))
 *
 * A state with lse -inf has no visible keys: its row is not read. If all states are so, o = 0 and lse = -inf.
 * For other rows a sink is one more state with o = 0. A weight is exactly 1 if its state is the only one or
 * the others vanish beside it. An lse of NaN makes the row NaN; +inf outweighs all finite ones.
 *
 * A work-group has ROW_ITEMS x GROUP_ROWS items: those side by side share a row, ITEM_VECTORS vectors of
 * SIMD_WIDTH columns each at a time; each row of items takes ITEM_ROWS rows, one after the other. Every
 * item reads the row's n values of lse itself, SIMD_WIDTH at a time, for one exponential of a vector:
 * they are few beside the columns, and in the cache.
 *
 * Defined by the host, besides the tunables:
 *   DTYPE                cl/common/storage.h
 *   UNIT_PARTS, UNIT_O   1: the innermost stride of the states, or of the result, is 1
 *   HAS_SINKS            1: each head has a sink
 *   HAS_ACCUMULATE       1: o and lse hold one more state before
 *
 * Sizes and strides: struct merge_shape (cl/elementwise/merge_arguments.h). parts is (states * batch, heads, seq_q, dim),
 * all batches of the first state before those of the second; parts_lse is packed (states, batch, heads, seq_q), lse
 * (batch, heads, seq_q). */
#include "cpu/simd_math.h"
#include "cpu/simd_storage.h"
#include "elementwise/merge_arguments.h"

#define PARTS_STEP (UNIT_PARTS ? 1 : args->shape->parts_stride[3])
#define RESULT_STEP (UNIT_O ? 1 : args->shape->o_stride[3])

#define VECTOR_STEP (ROW_ITEMS * SIMD_WIDTH) /* elements from one vector of an item to its next */
#define BLOCK_COLUMNS (VECTOR_STEP * ITEM_VECTORS) /* columns that a row's items hold at a time */

/* The tensors that the kernel reads and writes (src/program/program_parameters.h). */
struct merge_arguments {
    const struct merge_shape *shape;
    const struct merge_offsets *at;
    ARGUMENTS_MEMBERS
};

/* A row of all states, and of the state that o and lse already hold. */
struct row {
    const __global float *lse; /* this row's lse in the first state */
    long rows;                 /* the distance from a state's lse to the next one's */
    float held, sink;          /* the held state's lse, and the sink; -inf if it does not count */
    long states;               /* the number of states, not counting the held one and the sink */
    float most, share;         /* the largest lse; the common factor of the weights */
    lanes lse0, weight0;       /* lse and weights of the first states, often of all */
};

/* ---- weights -------------------------------------------------------------------------------- */

/* Loads the lse of states s .. s + SIMD_WIDTH - 1. The state in o (accumulate) and the sink come
 * last; then -inf. */
INLINE lanes load_lse(const struct row *r, const long s)
{
    float x[SIMD_WIDTH];

    UNROLL
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = s + c < r->states                     ? r->lse[(s + c) * r->rows]
               : s + c == r->states                  ? r->held
               : HAS_SINKS && s + c == r->states + 1 ? r->sink
                                                     : -INFINITY;
    return VECTOR(vload)(0, x);
}

/* The weights of states relative to the largest lse, which is not -inf; NaN if it is NaN. */
INLINE lanes weights_of_states(const lanes lse, const float most)
{
    return lse == (lanes)(most) ? (lanes)(1.0f) : exponential2((lse - most) * M_LOG2E_F);
}

/* Sets most and share, and returns the lse of the merged row. */
INLINE float weigh_row(struct row *r)
{
    float sum;

    r->most = r->held;
    for (long s = 0; s < r->states; s++)
        r->most = larger(r->most, r->lse[s * r->rows]);
    if (r->most == -INFINITY)
        return -INFINITY;
    if (HAS_SINKS)
        r->most = larger(r->most, r->sink);
    r->lse0 = load_lse(r, 0);
    r->weight0 = weights_of_states(r->lse0, r->most);
    sum = sum_lanes(r->weight0);
    for (long s = SIMD_WIDTH; s <= r->states + HAS_SINKS; s += SIMD_WIDTH)
        sum += sum_lanes(weights_of_states(load_lse(r, s), r->most));
    r->share = sum == 1.0f ? 1.0f : 1.0f / sum;
    r->weight0 *= r->share;
    return sum == 1.0f ? r->most : r->most + log(sum);
}

/* ---- columns -------------------------------------------------------------------------------- */

/* Loads a vector of columns; aligned: to four elements, one load on GPUs. */
#if SIMD_WIDTH == 4
#define LOAD_WHOLE(p, aligned) load4(p, aligned)
#else
#define LOAD_WHOLE(p, aligned) load_lanes(DTYPE, p)
#endif

/* Merges an item's columns of a row; the row has `left` columns from the item's first one on.
 * whole: all of the columns exist, side by side. */
INLINE void add_columns(const float weight, const __global storage *p, const long step,
                        const int left, const bool aligned, const bool whole, lanes *x)
{
    if (whole) {
        UNROLL
        for (int v = 0; v < ITEM_VECTORS; v++)
            x[v] += weight * LOAD_WHOLE(p + v * VECTOR_STEP, aligned);
        return;
    }
    for (int v = 0; v < ITEM_VECTORS; v++)
        if (v * VECTOR_STEP < left)
            x[v] += weight * load_row(p + v * VECTOR_STEP * step, step, left - v * VECTOR_STEP);
}

/* Returns whether every row of a tensor starts at a multiple of four elements. */
INLINE bool is_aligned(const long first, const long *stride)
{
    return ((first | stride[0] | stride[1] | stride[2]) & 3) == 0;
}

/* Divides numbers that mostly fit 32 bits: on GPUs this takes a quarter of the time of a 64-bit
 * division. */
INLINE long quotient(const long n, const long by)
{
    return (n | by) >> 32 == 0 ? (long)((uint)n / (uint)by) : n / by;
}

#if HAS_SINKS
#define SINK(h) args->sinks[h]
#else
#define SINK(h) -INFINITY
#endif

/* Writes a row of o and returns its lse, which may be stored once no work-item reads the old one
 * any more. */
INLINE float merge_row(const struct merge_arguments *args, const float held, const long row,
                       const long rows)
{
    const long bh = quotient(row, args->shape->seq_q), b = quotient(bh, args->shape->heads);
    const long i = row - bh * args->shape->seq_q, h = bh - b * args->shape->heads;
    const long state_step = args->shape->batch * args->shape->parts_stride[0];
    const bool aligned = is_aligned(args->at->parts, args->shape->parts_stride);
    const int dim = (int)args->shape->dim;
    struct row r = {
        args->parts_lse + row, rows, held, SINK(h), args->shape->states, 0.0f, 0.0f, 0.0f, 0.0f};
    const float merged = weigh_row(&r);

    const __global storage *parts = args->parts + row_offset(args->shape->parts_stride, b, h, i);
    __global storage *o = args->o + row_offset(args->shape->o_stride, b, h, i);
    for (int c = (int)get_local_id(0) * SIMD_WIDTH; c < dim; c += BLOCK_COLUMNS) {
        const bool whole = dim - c >= (ITEM_VECTORS - 1) * VECTOR_STEP + SIMD_WIDTH;
        lanes x[ITEM_VECTORS];
        UNROLL
        for (int v = 0; v < ITEM_VECTORS; v++)
            x[v] = (lanes)(0.0f);
        for (long s = 0; s <= args->shape->states && merged != -INFINITY; s += SIMD_WIDTH) {
            float lse[SIMD_WIDTH], weight[SIMD_WIDTH];
            const lanes some = s == 0 ? r.lse0 : load_lse(&r, s);
            VECTOR(vstore)(some, 0, lse);
            VECTOR(vstore)
            (s == 0 ? r.weight0 : weights_of_states(some, r.most) * r.share, 0, weight);
            for (int n = 0; n < SIMD_WIDTH && s + n < args->shape->states; n++)
                if (lse[n] != -INFINITY)
                    add_columns(weight[n], parts + (s + n) * state_step + c * PARTS_STEP,
                                PARTS_STEP, dim - c, aligned, whole && PARTS_STEP == 1, x);
#if HAS_ACCUMULATE
            if (s + SIMD_WIDTH > args->shape->states && held != -INFINITY)
                add_columns(weight[args->shape->states - s], o + c * RESULT_STEP, RESULT_STEP,
                            dim - c, false, whole && RESULT_STEP == 1, x);
#endif
        }
        for (int v = 0; v < ITEM_VECTORS; v++)
            if (c + v * VECTOR_STEP < dim)
                store_row(x[v], o + (c + v * VECTOR_STEP) * RESULT_STEP, RESULT_STEP,
                          dim - c - v * VECTOR_STEP);
    }
    return merged;
}

#if HAS_ACCUMULATE
#define HELD(row) args->lse[row]
#else
#define HELD(row) -INFINITY
#endif

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_ROWS, 1))) void
merge_rows(PARAMETERS_merge_rows)
{
    const struct merge_arguments arguments = ARGUMENTS_merge_rows, *const args = &arguments;
    const long rows = args->shape->batch * args->shape->heads * args->shape->seq_q;
    const long first = (long)get_group_id(1) * (GROUP_ROWS * ITEM_ROWS) + get_local_id(1);

    for (int r = 0; r < ITEM_ROWS; r++) {
        const long row = first + r * GROUP_ROWS;
        float merged = 0.0f;
        if (row < rows)
            merged = merge_row(args, HELD(row), row, rows);
#if HAS_ACCUMULATE && ROW_ITEMS > 1
        barrier(CLK_GLOBAL_MEM_FENCE); /* all items of the row have read the old lse */
#endif
        if (row < rows && get_local_id(0) == 0)
            args->lse[row] = merged;
    }
}
