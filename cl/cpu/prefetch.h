/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches a line of 64 bytes where that compiles to an instruction or to nothing. This is known
 * where the compiler generates code for the processor itself (PoCL), and on Intel's runtime for
 * CPUs, which its extension identifies. OpenCL's prefetch() does nothing in PoCL. Elsewhere nothing
 * is prefetched: Mesa 25's rusticl ends the process over either (tests/drivers/prefetch.cl). */
#pragma once
#include "common/kernel.h"

/* Prefetches for reading, into L2 or into L1. */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) ||        \
    defined(__powerpc64__) || defined(__riscv) || defined(__loongarch__) || defined(__s390x__)
INLINE void prefetch_l2(const __global void *p)
{
    __builtin_prefetch((const void *)(size_t)p, 0, 2);
}

INLINE void prefetch_l1(const __global void *p)
{
    __builtin_prefetch((const void *)(size_t)p, 0, 3);
}
#else
INLINE void prefetch_l2(const __global void *p)
{
#ifdef cl_intel_exec_by_local_thread
    prefetch((const __global uchar *)p, (size_t)1);
#endif
}

INLINE void prefetch_l1(const __global void *p)
{
    prefetch_l2(p);
}
#endif
