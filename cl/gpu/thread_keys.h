/* SPDX-License-Identifier: Apache-2.0 */
/* Loads of keys and values in split_gpu_item: a thread of a thread group reads LOAD_WIDTH
 * neighbouring columns of each chunk of columns, for all THREAD_N keys of its thread group.
 *
 * With paged keys a thread looks up its own keys, four at a time if they are in one page.
 *
 * Tunables   THREADS_D, THREADS_N, BLOCK_N; THREAD_N is the number of keys of a thread. */
#pragma once
#include "gpu/quantized_tile.h"
#include "common/key_rows.h"

/* The number of key n of a thread group within its tile: each group has fours of neighbours, 4 *
 * THREADS_N apart. */
#define KEY_OF(thread_n, n) (((n) / 4 * THREADS_N + (thread_n)) * 4 + (n) % 4)

#if PAGE_SIZE
/* The number of neighbouring keys that are always in one page: tiles start at multiples of four,
 * or with a page. */
#define KEYS_TOGETHER (PAGE_SIZE % 4 ? 1 : 4)
#endif

/* The keys or values of one head, from the first key of a thread group in a tile on, and the
 * columns that the thread reads. All members but p, the steps, the thread and aligned are constants
 * once inlined. */
struct cached {
    const __global void *p; /* the first key; paged: the head's first row in page 0 */
    long row_step, step;
    int thread_n, thread_d;
    bool aligned;     /* wide loads are possible */
    int cache, dtype; /* the format and the dtype of the elements */
    int dim, width;   /* width: elements that one load takes */
#if PAGE_SIZE
    /* the offsets of KEYS_TOGETHER neighbouring keys each, in elements */
    long place[THREAD_N / KEYS_TOGETHER];
#endif
};

/* The thread's first column in a chunk. */
INLINE int column_of_thread(const int thread_d, const int chunk)
{
    return chunk * CHUNK + thread_d * LOAD_WIDTH;
}

/* The offset of key n of the thread group in a tile of count keys; the last key repeats. */
INLINE const __global void *row_of_key(const struct cached m, const int n, const int count)
{
    const int key = min(KEY_OF(m.thread_n, n), count - 1);
#if PAGE_SIZE
    const int first = min(KEY_OF(m.thread_n, n / KEYS_TOGETHER * KEYS_TOGETHER), count - 1);

    return element_at(m.cache, m.dtype, m.p,
                      m.place[n / KEYS_TOGETHER] + (key - first) * m.row_step);
#else
    return element_at(m.cache, m.dtype, m.p, (key - KEY_OF(m.thread_n, 0)) * m.row_step);
#endif
}

/* Loads LOAD_WIDTH columns of the row at p; beyond the last column other columns of the row are
 * loaded instead. */
INLINE void load_cached_columns(const struct cached m, const bool aligned, const __global void *p,
                                const int column, float4 x[PIECES])
{
    const int last = m.dim - 1;

#if LOAD_WIDTH == 8
    if (!m.cache && m.width == 8) {
        const float8 y = load8_of(m.dtype, place_of(m.dtype, p, min(column, m.dim - 8)), aligned);
        x[0] = (float4)(y.s0, y.s1, y.s2, y.s3);
        x[1] = (float4)(y.s4, y.s5, y.s6, y.s7);
        return;
    }
#endif
#pragma unroll
    for (int n = 0; n < PIECES; n++) {
        const int d = column + 4 * n;
        if (m.cache)
            x[n] = quantized4_by_words(m.cache, p, min(d, m.dim - 4));
        else if (m.width != 1)
            x[n] = load4_of(m.dtype, place_of(m.dtype, p, min(d, m.dim - 4)), aligned);
        else
            x[n] = (float4)(load1_of(m.dtype, p, min(d, last) * m.step),
                            load1_of(m.dtype, p, min(d + 1, last) * m.step),
                            load1_of(m.dtype, p, min(d + 2, last) * m.step),
                            load1_of(m.dtype, p, min(d + 3, last) * m.step));
    }
}

/* Loads a chunk of the thread group's keys from a tile of `count` keys. Beyond the tile the last key is loaded again, since
 * loads without branches between them can be in flight together. */
INLINE void load_cached_keys(const struct cached m, const int chunk, const int count,
                             float4 x[THREAD_N][PIECES])
{
    const int column = column_of_thread(m.thread_d, chunk);

    if (m.aligned) {
#pragma unroll
        for (int n = 0; n < THREAD_N; n++)
            load_cached_columns(m, true, row_of_key(m, n, count), column, x[n]);
    } else {
#pragma unroll
        for (int n = 0; n < THREAD_N; n++)
            load_cached_columns(m, false, row_of_key(m, n, count), column, x[n]);
    }
}

#if PAGE_SIZE
/* Moves to the tile of count keys that begins with key j0 of batch b. */
INLINE void go_to_tile(const struct arguments *args, struct cached *m, const long b, const long j0,
                       const int count, const long page_step)
{
#pragma unroll
    for (int n = 0; n < THREAD_N; n += KEYS_TOGETHER)
        m->place[n / KEYS_TOGETHER] = row_in_cache(
            args, b, j0 + min(KEY_OF(m->thread_n, n), count - 1), page_step, m->row_step);
}
#endif

/* Moves `rows` rows ahead; keys in pages are looked up instead. */
INLINE void step_on(struct cached *m, const long rows)
{
    if (!PAGE_SIZE)
        m->p = element_at(m->cache, m->dtype, m->p, rows * m->row_step);
}

/* Returns x with 0 in columns beyond the last, which may contain anything; column is x's first one.
 * */
INLINE float4 within_row(const float4 x, const int column, const int dim)
{
    if (dim % CHUNK == 0)
        return x;
    return (int4)(column, column + 1, column + 2, column + 3) < (int4)dim ? x : (float4)0.0f;
}
