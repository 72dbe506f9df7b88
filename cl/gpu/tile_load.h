/* Filling tiles of local memory from a matrix in global memory, by the whole work-group, and
 * storing to one.
 *
 * Before including this: common.cl; THREADS, the work-group's size; LOAD_WIDTH, 4 or 8, the elements
 * that one load takes where a matrix allows it. */
#ifndef CLATTN_TILE_LOAD_H
#define CLATTN_TILE_LOAD_H

#if DTYPE == DTYPE_F32
#define STORAGE_BYTES 4
#else
#define STORAGE_BYTES 2
#endif

/* Elements that one load takes: as many as LOAD_WIDTH says where rows are a multiple of them. */
#define WIDTH(unit, dim) (!(unit) ? 1 : (dim) % LOAD_WIDTH == 0 ? LOAD_WIDTH : (dim) % 4 ? 1 : 4)

/* Whether rows of a tensor are so aligned that one instruction can load width elements. */
static inline bool rows_aligned(const __global storage *rows, const long row_step, const int width)
{
    return (((size_t)rows | (size_t)row_step * STORAGE_BYTES) & (width * STORAGE_BYTES - 1)) == 0;
}

#if DTYPE == DTYPE_F16
/* The two halves of a word. Wide loads are of words, since some compilers make those of halves one
 * by one, even by vloada_half8. Vectors are not put together from smaller ones, over which Oclgrind
 * 21.10 falls. */
static inline float2 halves(const uint word)
{
    const ushort2 pair = as_ushort2(word); /* a vector: see the top of common.cl's storage */
    return vload_half2(0, (const half *)&pair);
}
#endif

/* Four elements at once; where rows are not aligned one at a time, not by vload4: compilers would
 * make one branch of the two, with the weaker alignment. */
static inline float4 load4(const __global storage *p, const bool aligned)
{
    if (!aligned)
        return (float4)(LOAD(p, 0), LOAD(p, 1), LOAD(p, 2), LOAD(p, 3));
#if DTYPE == DTYPE_F32
    return *(const __global float4 *)p;
#elif DTYPE == DTYPE_F16
    const uint2 words = *(const __global uint2 *)p;
    const float2 a = halves(words.x), b = halves(words.y);
    return (float4)(a.x, a.y, b.x, b.y);
#else
    return as_float4(convert_uint4(*(const __global ushort4 *)p) << 16);
#endif
}

#if LOAD_WIDTH == 8
static inline float8 load8(const __global storage *p, const bool aligned)
{
    if (!aligned)
        return (float8)(LOAD(p, 0), LOAD(p, 1), LOAD(p, 2), LOAD(p, 3), LOAD(p, 4), LOAD(p, 5),
                        LOAD(p, 6), LOAD(p, 7));
#if DTYPE == DTYPE_F16
    const uint4 words = *(const __global uint4 *)p;
    const float2 a = halves(words.x), b = halves(words.y), c = halves(words.z), d = halves(words.w);
    return (float8)(a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y);
#else
    return as_float8(convert_uint8(*(const __global ushort8 *)p) << 16);
#endif
}
#endif

/* x with 0 for every Inf and NaN; tells whether there was one. */
static inline float4 finite_or_0(const float4 x, int *tainted)
{
    const int4 bad = x * 0.0f != 0.0f;

    *tainted |= any(bad);
    return bad ? (float4)0.0f : x;
}

/* Fills tile_rows x columns of a tile (stride in float4) with columns [first, first + columns) of
 * a matrix of rows x dim, and with 0 outside of it; rows >= 1. With `finite` Infs and NaNs become
 * 0 too, and the result tells whether this item met one. All but the pointers, steps, rows and
 * flags are constants once inlined. */
__attribute__((always_inline)) static inline int
load_tile(__local float4 *tile, const int stride, const int tile_rows, const int columns,
          const __global storage *matrix, const long row_step, const long step, const int rows,
          const int first, const int dim, const int width, const bool aligned, const bool finite)
{
    const int chunks = columns / width;
    int tainted = 0;

    for (int t = get_local_id(0); t < tile_rows * chunks; t += THREADS) {
        const int row = t / chunks, column = t % chunks * width;
        const bool inside = row < rows && first + column < dim;
        /* Clamped, not skipped: loads without branches can be in flight together. */
        const __global storage *p =
            matrix + min(row, rows - 1) * row_step + min(first + column, dim - width) * step;
        __local float4 *const to = tile + row * stride + column / 4;
        if (width == 1) {
            float4 x = inside ? LOAD(p, 0) : 0.0f;
            if (finite)
                x = finite_or_0(x, &tainted);
            ((__local float *)to)[column % 4] = x.x;
        } else if (width == 4) {
            const float4 x = inside ? load4(p, aligned) : 0.0f;
            *to = finite ? finite_or_0(x, &tainted) : x;
        }
#if LOAD_WIDTH == 8
        else {
            const float8 x = inside ? load8(p, aligned) : 0.0f;
            const float4 lo = (float4)(x.s0, x.s1, x.s2, x.s3);
            const float4 hi = (float4)(x.s4, x.s5, x.s6, x.s7);
            to[0] = finite ? finite_or_0(lo, &tainted) : lo;
            to[1] = finite ? finite_or_0(hi, &tainted) : hi;
        }
#endif
    }
    return tainted;
}

#if DTYPE == DTYPE_F32
#define STORE4(x, p) vstore4(x, 0, p)
#elif DTYPE == DTYPE_F16
#define STORE4(x, p) vstore_half4_rte(x, 0, p)
#else
#define STORE4(value, p)                                                                           \
    vstore4((ushort4)(bf16_round((value).x), bf16_round((value).y), bf16_round((value).z),         \
                      bf16_round((value).w)), 0, p)
#endif

/* Stores x to columns d.. of a row of dim, those that exist; dim and width (as in load_tile) are
 * constants once inlined. */
__attribute__((always_inline)) static inline void
store4(const float4 x, __global storage *row, const long step, const int d, const int dim,
       const int width)
{
    if (width != 1) {
        if (d < dim)
            STORE4(x, row + d);
        return;
    }
    if (d < dim)
        STORE(x.x, row, d * step);
    if (d + 1 < dim)
        STORE(x.y, row, (d + 1) * step);
    if (d + 2 < dim)
        STORE(x.z, row, (d + 2) * step);
    if (d + 3 < dim)
        STORE(x.w, row, (d + 3) * step);
}

#endif
