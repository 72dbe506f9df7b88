/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys as bytes, for products of integers on GPUs (precision=int8, clattn/problem.h).
 *
 * Stages   sum_keys sums MEAN_PARTS parts of each kv head's keys. It weighs a key by the inverse square of its largest
 *          magnitude, so that huge ones behind a mask hardly move the mean. make_byte_rows divides the sums by the weights,
 *          and makes a line of each query and each key.
 * Lines    lie in the workspace behind the sums. A line has BYTE_WORDS words of four signed bytes, then the scale. A query's
 *          line also has its product with the mean. Lines are padded to whole float4.
 * Caches   of int8 have no mean: their keys' lines have the bytes and scales that are stored. */
#pragma once
#include "common/key_rows.h"
#include "common/quantized.h"
#include "common/sequence.h"
#include "families/byte_row_sizes.h"
#include "gpu/local_barrier.h"
#include "score/score.h"

#if HAS_INT8
#ifdef PARAMETERS_sum_keys
#define HAS_KEY_MEANS 1
#else
#define HAS_KEY_MEANS 0
#endif

/* ---- the workspace -------------------------------------------------------------------------- */

/* The sums of a kv head's parts; each part has its weight behind the columns. The first begins with the first whole float4
 * of the workspace. */
INLINE __global float *sums_of_keys(const struct arguments *args, const long b, const long kv_head)
{
    const size_t begin = ROUND_UP((size_t)args->workspace, (size_t)FLOAT4_BYTES);

    return (__global float *)begin +
           (b * args->shape->kv_heads + kv_head) * MEAN_PARTS * PART_FLOATS;
}

/* The line of query i, and the line of key j. */
INLINE __global float *query_line(const struct arguments *args, const long b, const long h,
                                  const long i)
{
    return sums_of_keys(args, HAS_KEY_MEANS ? args->shape->batch : 0, 0) +
           ((b * args->shape->heads + h) * longest_q(args) + i) * LINE_FLOATS;
}

INLINE __global float *key_line(const struct arguments *args, const long b, const long kv_head,
                                const long j)
{
    return query_line(args, args->shape->batch, 0, 0) +
           ((b * args->shape->kv_heads + kv_head) * longest_kv(args) + j) * LINE_FLOATS;
}

/* The number of floats in the workspace up to the end of the last line. */
INLINE long byte_row_floats(const struct arguments *args)
{
    return key_line(args, args->shape->batch, 0, 0) - args->workspace;
}

/* ---- the mean ------------------------------------------------------------------------------- */

INLINE const __global k_storage *first_key_of(const struct arguments *args, const long b,
                                              const long kv_head)
{
    return k_place(args->k, head_offset(args->shape->k_stride, cache_batch(b), kv_head));
}

/* The magnitudes of numbers as integers: those of infinities and NaNs are the largest. */
INLINE int magnitude_bits(const float x)
{
    return as_int(x) & 0x7fffffff;
}

#if HAS_KEY_MEANS
/* The weight of key j in the mean: 0 if it is in no page, or if its square or the inverse could be infinite. */
INLINE float weight_of_key(const struct arguments *args, const __global k_storage *k,
                           const struct row_scales scales, const long b, const long j)
{
    int most = 0;

    if (!has_row(args, b, j))
        return 0.0f;
    const long row = key_row(args, b, j, args->shape->k_stride);
    const float scale = scale_of_row(scales, j);
    for (int d = 0; d < DIM_QK; d++)
        most = max(most, magnitude_bits(load_k(k, row, d * k_step(args)) * scale));
    const float largest = as_float(most);
    return largest >= 0x1p-40f && largest <= 0x1p+40f ? 1.0f / (largest * largest) : 0.0f;
}

/* The global range is (parts of keys, kv heads, batches), one group each. */
__kernel __attribute__((reqd_work_group_size(BYTE_ITEMS, 1, 1))) void sum_keys(PARAMETERS_sum_keys)
{
    struct arguments arguments = ARGUMENTS_sum_keys;
    const long kv_head = get_group_id(1), b = get_group_id(2);
    const int part = get_group_id(0), item = get_local_id(0);
    ENTER_SEQUENCE(args, &arguments, b);
    __local float weights[BYTE_ITEMS];
    const __global k_storage *const first = first_key_of(args, b, kv_head);
    const struct row_scales scales = k_scales_from(args, b, kv_head, 0);
    const long keys = extent_of(args, b).keys, in_part = (keys + MEAN_PARTS - 1) / MEAN_PARTS;
    const long end = min(in_part * (part + 1), keys);
    float sum[DIVIDE_UP(MEAN_FLOATS, BYTE_ITEMS)], total = 0.0f;

    for (int c = 0; c < DIVIDE_UP(MEAN_FLOATS, BYTE_ITEMS); c++)
        sum[c] = 0.0f;
    for (long j0 = in_part * part; j0 < end; j0 += BYTE_ITEMS) {
        const int count = min(end - j0, (long)BYTE_ITEMS);
        weights[item] = item < count ? weight_of_key(args, first, scales, b, j0 + item) : 0.0f;
        LOCAL_BARRIER(); /* the weights are complete */
        for (int n = 0; n < count; n++) {
            const float weight = weights[n];
            if (weight == 0.0f)
                continue;
            const long row = key_row(args, b, j0 + n, args->shape->k_stride);
            const float scale = scale_of_row(scales, j0 + n);
            total += weight;
            for (int c = 0; c < DIVIDE_UP(MEAN_FLOATS, BYTE_ITEMS); c++) {
                const int d = item + BYTE_ITEMS * c;
                if (d < DIM_QK)
                    sum[c] = fma(load_k(first, row, d * k_step(args)) * scale, weight, sum[c]);
            }
        }
        LOCAL_BARRIER(); /* the weights were read */
    }
    __global float *const to = sums_of_keys(args, b, kv_head) + part * PART_FLOATS;
    for (int c = 0; c < DIVIDE_UP(MEAN_FLOATS, BYTE_ITEMS); c++)
        if (item + BYTE_ITEMS * c < MEAN_FLOATS)
            to[item + BYTE_ITEMS * c] = sum[c];
    if (item == 0)
        to[MEAN_FLOATS] = total;
}

/* Column d of the mean. */
INLINE float mean_from(const __global float *sums, const int d)
{
    float sum = 0.0f, weight = 0.0f;

    for (int part = 0; part < MEAN_PARTS; part++) {
        sum += sums[part * PART_FLOATS + d];
        weight += sums[part * PART_FLOATS + MEAN_FLOATS];
    }
    return weight > 0.0f ? sum / weight : 0.0f;
}
#endif

/* ---- lines ---------------------------------------------------------------------------------- */

/* A query, or a key and what its columns are multiplied with; `mean` is local memory, without a mean null. */
struct byte_row {
    const struct arguments *args;
    bool is_query;
    const __global storage *q;
    const __global k_storage *k;
    long key; /* the offset of the key from the first one */
    float k_scale;
    const __local float *mean;
};

/* Columns d .. d + 3, with 0 behind the last one; those of keys are distances from the mean. */
INLINE float4 columns_of_row(const struct byte_row row, const int d)
{
    float x[4];

#pragma unroll
    for (int c = 0; c < 4; c++) {
        x[c] = 0.0f;
        if (d + c >= DIM_QK)
            continue;
        if (row.is_query)
            x[c] = load1_of(DTYPE, row.q, (d + c) * q_step(row.args));
        else
            x[c] = load_k(row.k, row.key, (d + c) * k_step(row.args)) * row.k_scale -
                   (HAS_KEY_MEANS ? row.mean[d + c] : 0.0f);
    }
    return (float4)(x[0], x[1], x[2], x[3]);
}

/* Rounds numbers from -127 to 127 to bytes. After 1.5 * 2^23 is added, the lowest eight bits of a float are the byte. */
INLINE int word_of_bytes(const float4 x)
{
    const int4 rounded = as_int4(x + 12582912.0f) & 255;

    return rounded.x | rounded.y << 8 | rounded.z << 16 | rounded.w << 24;
}

/* The word of bytes of a cache of int8, as they are stored. */
INLINE int stored_word(const struct byte_row row, const int d)
{
    return as_int(vload4(0, (const __global uchar *)k_place(row.k, row.key) + d));
}

/* The number of groups of make_byte_rows for the rows of a head. */
INLINE long groups_of_rows(const long rows)
{
    return (rows + BYTE_ROWS - 1) / BYTE_ROWS;
}

/* The global range is (groups of the rows of all heads, then of kv heads; batches). A group makes the lines of BYTE_ROWS
 * rows of a head; LINE_ITEMS work-items share a line. */
__kernel __attribute__((reqd_work_group_size(BYTE_ITEMS, 1, 1))) void
make_byte_rows(PARAMETERS_make_byte_rows)
{
    struct arguments arguments = ARGUMENTS_make_byte_rows;
    const long b = get_group_id(1);
    ENTER_SEQUENCE(args, &arguments, b);
    enum { LINE_ITEMS = 8 };
    __local float mean[MEAN_FLOATS], products[BYTE_ITEMS];
    __local int largest[BYTE_ITEMS];
    const int item = get_local_id(0), share = item % LINE_ITEMS, line = item / LINE_ITEMS;
    const long q_groups = groups_of_rows(longest_q(args)),
               kv_groups = groups_of_rows(longest_kv(args));
    const long k_group = (long)get_group_id(0) - args->shape->heads * q_groups;
    const bool is_query = k_group < 0;
    const long head = is_query ? get_group_id(0) / q_groups : k_group / kv_groups;
    const long kv_head = is_query ? head / args->shape->group : head;
    const long first = (is_query ? get_group_id(0) % q_groups : k_group % kv_groups) * BYTE_ROWS;
    const struct extent e = extent_of(args, b);
    const long rows = is_query ? e.queries : e.keys;
    struct byte_row row = {args, is_query, 0, first_key_of(args, b, kv_head), 0, 1.0f, mean};

#if HAS_KEY_MEANS
    for (int d = item; d < MEAN_FLOATS; d += BYTE_ITEMS)
        mean[d] = mean_from(sums_of_keys(args, b, kv_head), d);
    LOCAL_BARRIER(); /* the mean is complete */
#endif
    for (int n = 0; n < BYTE_ROWS; n += BYTE_ITEMS / LINE_ITEMS) {
        const long at = first + n + line;
        const bool inside = at < rows && (is_query || has_row(args, b, at));
        const bool is_stored = HAS_KEY_MEANS ? false : !is_query;
        const int rounded = is_stored ? 0 : BYTE_WORDS;
        int most = 0;
        float product = 0.0f;

        row.q = args->q + row_offset(args->shape->q_stride, b, head, inside && is_query ? at : 0);
        if (inside && !is_query) {
            row.key = key_row(args, b, at, args->shape->k_stride);
            row.k_scale = scale_of_row(k_scales_from(args, b, kv_head, at), 0);
        }
        for (int w = share; w < rounded && inside; w += LINE_ITEMS) {
            const float4 x = columns_of_row(row, 4 * w);
            most = max(
                max(max(most, magnitude_bits(x.x)), max(magnitude_bits(x.y), magnitude_bits(x.z))),
                magnitude_bits(x.w));
#if HAS_KEY_MEANS
            product += x.x * mean[4 * w] + x.y * mean[4 * w + 1] + x.z * mean[4 * w + 2] +
                       x.w * mean[4 * w + 3];
#endif
        }
        largest[item] = most;
        products[item] = product;
        LOCAL_BARRIER(); /* the items' parts of lines are complete */
        product = 0.0f;
        for (int i = 0; i < LINE_ITEMS; i++) {
            most = max(most, largest[line * LINE_ITEMS + i]);
            product += products[line * LINE_ITEMS + i];
        }
        LOCAL_BARRIER(); /* they were read */
        if (inside) {
            const float magnitude = most >= 0x7f800000           ? NAN
                                    : as_float(most) < 0x1p-100f ? 0.0f
                                                                 : as_float(most);
            const float inverse = magnitude == 0.0f ? 0.0f : 127.0f / magnitude;
            __global float *const to =
                is_query ? query_line(args, b, head, at) : key_line(args, b, kv_head, at);
            for (int w = share; w < BYTE_WORDS; w += LINE_ITEMS)
                to[w] = as_float(is_stored ? 4 * w < DIM_QK ? stored_word(row, 4 * w) : 0
                                           : word_of_bytes(columns_of_row(row, 4 * w) * inverse));
            if (share == 0) {
                to[BYTE_WORDS] = is_stored ? row.k_scale : magnitude / 127.0f;
                to[BYTE_WORDS + 1] = product;
            }
        }
    }
}
#endif
