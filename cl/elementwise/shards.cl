/* SPDX-License-Identifier: Apache-2.0 */
/* shards: libclattn_mpi's operations on rows of shards, besides attention itself: moving, adding,
 * merging
 * and storing them.
 *
 * Tensors   (batch, heads, rows, dim) with dim innermost and steps of their own; `size` is batch,
 * heads,
 *           rows, dim, a `stride` batch, heads, rows, and an offset comes first in it.
 * NDRange   local (COLUMNS, ROWS, 1); a work-item takes columns x, x + COLUMNS .. of a row. CPUs:
 * COLUMNS=1. Kernels that move rows move those of two tensors, k and v: where the third id is 0,
 * the first ones of the arguments.
 * Sums      f32.
 *
 * The merge is that of clattn/problem.h, "Merge". */
#include "common/multiply_add.h"
#include "common/storage.h"
#if !defined(COLUMNS) || !defined(ROWS)
#error "shards.cl must be built with COLUMNS and ROWS defined"
#endif
#define SHARD_KERNEL __kernel __attribute__((reqd_work_group_size(COLUMNS, ROWS, 1))) void

/* The row of this work-item, and its offset; x lists the tensor's offset, then its strides along
 * batch, heads and rows. */
#define ROW_OF_ITEM() get_global_id(1)
#define HAS_ROW(size) (ROW_OF_ITEM() < (size).x * (size).y * (size).z)

static inline ulong place_of_row(const ulong4 size, const ulong4 x)
{
    const ulong row = ROW_OF_ITEM();

    return x.x + row / size.z / size.y * x.y + row / size.z % size.y * x.z + row % size.z * x.w;
}

/* Defines a kernel that runs `element` for x[d] and y[d] in every row of two pairs of tensors. */
#define MOVE_KERNEL(name, source, target, element)                                                 \
    static inline void name##_row(const ulong4 size, const __global source *from,                  \
                                  const ulong4 from_at, __global target *to, const ulong4 to_at)   \
    {                                                                                              \
        if (!HAS_ROW(size))                                                                        \
            return;                                                                                \
        const __global source *x = from + place_of_row(size, from_at);                             \
        __global target *y = to + place_of_row(size, to_at);                                       \
        for (ulong d = get_local_id(0); d < size.w; d += COLUMNS)                                  \
            element;                                                                               \
    }                                                                                              \
    SHARD_KERNEL name(const ulong4 size, const __global source *from, const ulong4 from_at,        \
                      __global target *to, const ulong4 to_at, const ulong4 size_2,                \
                      const __global source *from_2, const ulong4 from_2_at,                       \
                      __global target *to_2, const ulong4 to_2_at)                                 \
    {                                                                                              \
        if (get_global_id(2) == 0)                                                                 \
            name##_row(size, from, from_at, to, to_at);                                            \
        else                                                                                       \
            name##_row(size_2, from_2, from_2_at, to_2, to_2_at);                                  \
    }

/* Kernels that copy rows in the dtype, copy rows of floats, add rows of floats to `to`, round
 * floats to the dtype, and convert the dtype to floats. */
MOVE_KERNEL(copy_rows, storage, storage, store1_of(DTYPE, load1_of(DTYPE, x, d), y, d))
MOVE_KERNEL(copy_floats, float, float, y[d] = x[d])
MOVE_KERNEL(add_floats, float, float, y[d] += x[d])
MOVE_KERNEL(store_rows, float, storage, store1_of(DTYPE, x[d], y, d))
MOVE_KERNEL(widen_rows, storage, float, y[d] = load1_of(DTYPE, x, d))

/* Merges (part, part_lse) into (o, o_lse); rows of lse are those of o, one float each. Every work-
 * item of a row reads its lse before one of them overwrites it. */
SHARD_KERNEL merge_state(const ulong4 size, const __global float *part, const ulong4 part_at,
                         const __global float *part_lse, const ulong4 part_lse_at,
                         __global float *o, const ulong4 o_at, __global float *o_lse,
                         const ulong4 o_lse_at)
{
    const bool has_row = HAS_ROW(size);
    float mine = -INFINITY, theirs = -INFINITY;

    if (has_row) {
        mine = o_lse[place_of_row(size, o_lse_at)];
        theirs = part_lse[place_of_row(size, part_lse_at)];
    }
#if COLUMNS > 1
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
    if (!has_row || theirs == -INFINITY) /* `part` had no visible key */
        return;
    const float highest = mine > theirs ? mine : theirs;
    const float a = exp(mine - highest), b = exp(theirs - highest), scale = 1.0f / (a + b);
    const __global float *x = part + place_of_row(size, part_at);
    __global float *y = o + place_of_row(size, o_at);
    for (ulong d = get_local_id(0); d < size.w; d += COLUMNS)
        y[d] = mine == -INFINITY ? x[d] : (y[d] * a + x[d] * b) * scale;
    if (get_local_id(0) == 0)
        o_lse[place_of_row(size, o_lse_at)] = mine == -INFINITY ? theirs : highest + log(a + b);
}

/* Writes o in the dtype, and lse if requested, with the head's sink as one more key of value 0.
 * Rows without visible keys have no sink either. In place, o is the sum, and has no sinks. */
SHARD_KERNEL store_state(const ulong4 size, const __global float *sum, const ulong4 sum_at,
                         const __global float *sum_lse, const ulong4 sum_lse_at,
                         __global storage *o, const ulong4 o_at, __global float *lse,
                         const ulong4 lse_at, const int has_lse, const __global float *sinks,
                         const ulong sinks_at, const int has_sinks, const int in_place)
{
    if (!HAS_ROW(size))
        return;
    float all = sum_lse[place_of_row(size, sum_lse_at)], factor = 1.0f;
    if (has_sinks && all != -INFINITY) {
        const float sink = sinks[sinks_at + ROW_OF_ITEM() / size.z % size.y];
        const float highest = all > sink ? all : sink;
        const float with = highest + log(exp(all - highest) + exp(sink - highest));
        factor = exp(all - with);
        all = with;
    }
    const __global float *x = sum + place_of_row(size, sum_at);
    __global storage *y = o + place_of_row(size, o_at);
    for (ulong d = get_local_id(0); d < size.w && (!in_place || all == -INFINITY); d += COLUMNS)
        store1_of(DTYPE, all == -INFINITY ? 0.0f : x[d] * factor, y, d);
    if (has_lse && get_local_id(0) == 0)
        lse[place_of_row(size, lse_at)] = all;
}

/* Each row's share of its head's dsink, -exp(sink - lse) dot(do, o): one work-item sums a row. */
SHARD_KERNEL sink_gradients(const ulong4 size, const __global storage *o, const ulong4 o_at,
                            const __global storage *d_o, const ulong4 d_o_at,
                            const __global float *lse, const ulong4 lse_at,
                            const __global float *sinks, const ulong sinks_at,
                            __global float *shares, const ulong4 shares_at)
{
    if (!HAS_ROW(size) || get_local_id(0) != 0)
        return;
    const __global storage *x = o + place_of_row(size, o_at), *y = d_o + place_of_row(size, d_o_at);
    const float all = lse[place_of_row(size, lse_at)];
    const float sink = sinks[sinks_at + ROW_OF_ITEM() / size.z % size.y];
    float sum = 0.0f;
    for (ulong d = 0; d < size.w; d++)
        sum = FMA(load1_of(DTYPE, x, d), load1_of(DTYPE, y, d), sum);
    shares[place_of_row(size, shares_at)] = all == -INFINITY ? 0.0f : -exp(sink - all) * sum;
}
