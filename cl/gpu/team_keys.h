/* What work-items of split_tiles read of keys and values: an item of a team reads LOAD_WIDTH
 * neighbouring columns of each chunk of columns, of all THREAD_N keys of its team.
 *
 * Before including this: quantized_tile.h; INLINE; THREADS_D, THREADS_N, THREAD_N, BLOCK_N. */
#ifndef CLATTN_TEAM_KEYS_H
#define CLATTN_TEAM_KEYS_H

#define PIECES (LOAD_WIDTH / 4) /* float4 of an item in a chunk */
#define CHUNK (THREADS_D * LOAD_WIDTH)
#define CHUNKS(dim) (((dim) + CHUNK - 1) / CHUNK)

/* Key n of a team, in its block: of 4 * THREADS_N neighbours each team has four neighbours. */
#define KEY_OF(team, n) (((n) / 4 * THREADS_N + (team)) * 4 + (n) % 4)

/* Keys or values of one head, from the first key of an item's team in a block on, and which columns
 * of them the item reads. All but p, the steps, team, lane and aligned are constants once
 * inlined. */
struct cached {
    const __global void *p;
    long row_step, step;
    int team, lane;
    bool aligned;          /* wide loads are possible */
    int cache, dim, width; /* cache: how they are stored; width: elements that one load takes */
};

/* The item's first column in a chunk. */
INLINE int column_of(const int lane, const int chunk)
{
    return chunk * CHUNK + lane * LOAD_WIDTH;
}

/* Columns d .. d + 3 of a quantized row, by words: as quantized4(), but with half as many loads. */
INLINE float4 load_quantized(const int cache, const __global uchar *row, const int d)
{
    const __global uchar *block = row + (d >> 5) * BLOCK_BYTES(cache);
    const __global ushort *p =
        (const __global ushort *)(block + 2 + (cache == CACHE_Q8_0 ? d & 31 : d & 15));
    const ushort2 bytes = (ushort2)(p[0], p[1]);

    if (cache == CACHE_Q8_0)
        return block_scale(block) * convert_float4(as_char4(bytes));
    return block_scale(block) *
           (convert_float4(as_uchar4(bytes) >> (uchar4)((d & 16) / 4) & (uchar4)15) - 8.0f);
}

/* LOAD_WIDTH columns of the row so many rows on, for those beyond the last others of it. */
INLINE void load_columns(const struct cached m, const bool aligned, const int rows,
                         const int column, float4 x[PIECES])
{
    const __global void *p = element_at(m.cache, m.p, rows * m.row_step);
    const __global storage *plain = (const __global storage *)p;
    const int last = m.dim - 1;

#if LOAD_WIDTH == 8
    if (!m.cache && m.width == 8) {
        const float8 y = load8(plain + min(column, m.dim - 8), aligned);
        x[0] = (float4)(y.s0, y.s1, y.s2, y.s3);
        x[1] = (float4)(y.s4, y.s5, y.s6, y.s7);
        return;
    }
#endif
#pragma unroll
    for (int n = 0; n < PIECES; n++) {
        const int d = column + 4 * n;
        if (m.cache)
            x[n] = load_quantized(m.cache, p, min(d, m.dim - 4));
        else if (m.width != 1)
            x[n] = load4(plain + min(d, m.dim - 4), aligned);
        else
            x[n] = (float4)(LOAD(plain, min(d, last) * m.step),
                            LOAD(plain, min(d + 1, last) * m.step),
                            LOAD(plain, min(d + 2, last) * m.step),
                            LOAD(plain, min(d + 3, last) * m.step));
    }
}

/* A chunk of the team's keys of a block, of which count are there; the last one again for those
 * after it. Loads without branches between them can be in flight together. */
INLINE void load_keys(const struct cached m, const int chunk, const int count,
                      float4 x[THREAD_N][PIECES])
{
    const int column = column_of(m.lane, chunk), first = KEY_OF(m.team, 0);

    if (m.aligned) {
#pragma unroll
        for (int n = 0; n < THREAD_N; n++)
            load_columns(m, true, min(KEY_OF(m.team, n), count - 1) - first, column, x[n]);
    } else {
#pragma unroll
        for (int n = 0; n < THREAD_N; n++)
            load_columns(m, false, min(KEY_OF(m.team, n), count - 1) - first, column, x[n]);
    }
}

/* To the next block. */
INLINE void step_on(struct cached *m)
{
    m->p = element_at(m->cache, m->p, BLOCK_N * m->row_step);
}

/* x with 0 in columns beyond the last, which may hold anything; column is its first. */
INLINE float4 within_row(const float4 x, const int column, const int dim)
{
    if (dim % CHUNK == 0)
        return x;
    return (int4)(column, column + 1, column + 2, column + 3) < (int4)dim ? x : (float4)0.0f;
}

#endif
