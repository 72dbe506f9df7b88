/* Asks for memory that will be read later, where the compiler knows how: OpenCL's own prefetch() does
 * nothing on CPUs. A line of the cache is taken to have 64 bytes. */
#ifndef CLATTN_PREFETCH_H
#define CLATTN_PREFETCH_H

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define PREFETCH_LINE(p) __builtin_prefetch((const void *)(size_t)(p))
#endif
#endif
#ifndef PREFETCH_LINE
#define PREFETCH_LINE(p) prefetch((p), (size_t)1)
#endif

/* The lines that start in so many bytes from p on; a constant, so that it unrolls. */
static inline __attribute__((always_inline)) void prefetch_bytes(const __global uchar *p,
                                                                 const int bytes)
{
#pragma unroll
    for (int n = 0; n < bytes; n += 64)
        PREFETCH_LINE(p + n);
}

#endif
