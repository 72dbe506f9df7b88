/* Asks for memory that will be read later, where the compiler knows how: OpenCL's own prefetch()
 * does nothing in PoCL; what compiles to SPIR has only that. A line of the cache is taken to have
 * 64 bytes. */
#ifndef CLATTN_PREFETCH_H
#define CLATTN_PREFETCH_H

#if defined(__has_builtin) && !defined(__SPIR__)
#if __has_builtin(__builtin_prefetch) /* to be read, into the second cache */
#define PREFETCH_LINE(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#define PREFETCH_NEAR(p) __builtin_prefetch((const void *)(size_t)(p), 0, 3) /* into the first */
#endif
#endif
#ifndef PREFETCH_LINE
#define PREFETCH_LINE(p) prefetch((p), (size_t)1)
#define PREFETCH_NEAR(p) PREFETCH_LINE(p)
#endif

/* So many lines (constant), the first of which has p in it. */
static inline __attribute__((always_inline)) void prefetch_lines(const __global uchar *p,
                                                                 const int count)
{
#pragma unroll
    for (int n = 0; n < count; n++)
        PREFETCH_LINE(p + 64 * n);
}

#endif
