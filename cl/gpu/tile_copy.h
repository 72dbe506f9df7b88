/* Filling tiles of local memory with floats by copies in the background, where the device has such (ASYNC_COPIES,
 * defined by the host): they take no registers and nobody waits for them before COPIES_WAIT(), behind which a
 * thread sees its own copies, and behind the next barrier all. Elsewhere a copy is a load and a store.
 *
 * Before including this: tile_load.h. */
#ifndef CLATTN_TILE_COPY_H
#define CLATTN_TILE_COPY_H

/* copy4() copies four floats that are aligned to 16 bytes, copy1() one; zeros unless inside. */
#if ASYNC_COPIES
#define COPIES_WAIT() __asm volatile("cp.async.wait_all;" : : : "memory")

INLINE void copy4(__local float *to, const __global float *from, const bool inside)
{
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"((uint)(size_t)to), "l"(from), "r"(inside ? 16 : 0)
                   : "memory");
}

INLINE void copy1(__local float *to, const __global float *from, const bool inside)
{
    __asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                   :
                   : "r"((uint)(size_t)to), "l"(from), "r"(inside ? 4 : 0)
                   : "memory");
}
#else
#define COPIES_WAIT() ((void)0)

INLINE void copy4(__local float *to, const __global float *from, const bool inside)
{
    *(__local float4 *)to = inside ? *(const __global float4 *)from : (float4)0.0f;
}

INLINE void copy1(__local float *to, const __global float *from, const bool inside)
{
    *to = inside ? *from : 0.0f;
}
#endif

/* Fills tile_rows x columns of a tile (stride in float4) with columns [first, first + columns) of a matrix of
 * rows x dim floats, and with 0 outside of it. aligned (constant): its rows are, to 16 bytes, and follow each
 * other without steps. Rows and columns of the tile are constants once inlined. */
INLINE void copy_rows(__local float4 *tile, const int stride, const int tile_rows, const int columns,
                      const __global float *matrix, const long row_step, const long step, const int rows,
                      const int first, const int dim, const bool aligned)
{
    const int quads = columns / 4, thread = THIS_THREAD;
    /* From one of the thread's quads to the next: as many rows, where threads are so many. */
    const bool steps = THREADS % quads == 0;

#pragma unroll
    for (int n = 0; n < (tile_rows * quads + THREADS - 1) / THREADS; n++) {
        const int t = thread + n * THREADS;
        const int row = steps ? thread / quads + n * (THREADS / quads) : t / quads;
        const int column = steps ? thread % quads : t % quads, d = first + 4 * column;
        __local float *const to = (__local float *)(tile + row * stride + column);
        const __global float *const from =
            matrix + (steps ? thread / quads * row_step + n * (THREADS / quads * row_step) : row * row_step) +
            d * step;
        if (tile_rows * quads % THREADS == 0 || t < tile_rows * quads) {
            if (aligned)
                copy4(to, from, row < rows && d < dim);
            else
                for (int c = 0; c < 4; c++)
                    copy1(to + c, from + c * step, row < rows && d + c < dim);
        }
    }
}

INLINE void copy_tile(__local float4 *tile, const int stride, const int tile_rows, const int columns,
                      const __global void *matrix, const long row_step, const long step, const int rows,
                      const int first, const int dim, const int width, const bool aligned)
{
    if (width == 4 && aligned)
        copy_rows(tile, stride, tile_rows, columns, matrix, row_step, 1, rows, first, dim, true);
    else
        copy_rows(tile, stride, tile_rows, columns, matrix, row_step, step, rows, first, dim, false);
}

/* Makes 0 of every Inf and NaN of what the thread has copied to a tile; tells whether there was one. */
INLINE int make_finite(__local float4 *tile, const int stride, const int tile_rows, const int columns)
{
    int nonfinite = 0;

    for (int t = THIS_THREAD; t < tile_rows * (columns / 4); t += THREADS) {
        __local float4 *const x = tile + t / (columns / 4) * stride + t % (columns / 4);
        *x = finite_or_0(*x, &nonfinite);
    }
    return nonfinite;
}

#endif
