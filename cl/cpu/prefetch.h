/* Asks for memory that will be read later, where that is known to compile to an instruction or to
 * nothing: where the compiler makes code for a processor itself, as PoCL's does, and on Intel's runtime
 * for CPUs, which its extension tells (it compiles OpenCL's own prefetch(), which does nothing in PoCL).
 * Elsewhere nothing is asked for: Mesa 25's rusticl ends the process over either
 * (tests/drivers/prefetch.cl). A line of the cache is taken to have 64 bytes. */
#ifndef CLATTN_PREFETCH_H
#define CLATTN_PREFETCH_H

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) ||        \
    defined(__powerpc64__) || defined(__riscv) || defined(__loongarch__) || defined(__s390x__)
/* To be read, into the second cache, or the first. */
#define PREFETCH_LINE(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#define PREFETCH_NEAR(p) __builtin_prefetch((const void *)(size_t)(p), 0, 3)
#else
#ifdef cl_intel_exec_by_local_thread
#define PREFETCH_LINE(p) prefetch((p), (size_t)1)
#else
#define PREFETCH_LINE(p) ((void)(p))
#endif
#define PREFETCH_NEAR(p) PREFETCH_LINE(p)
#endif

#endif
