/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches a line of 64 bytes where that compiles to an instruction or to nothing. This is known
 * where the compiler generates code for the processor itself (PoCL), and on Intel's runtime for
 * CPUs, which its extension identifies. OpenCL's prefetch() does nothing in PoCL. Elsewhere nothing
 * is prefetched: Mesa 25's rusticl ends the process over either (tests/drivers/prefetch.cl). */
#pragma once

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) ||        \
    defined(__powerpc64__) || defined(__riscv) || defined(__loongarch__) || defined(__s390x__)
/* Prefetches for reading, into L2 or into L1. */
#define PREFETCH_L2(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#define PREFETCH_L1(p) __builtin_prefetch((const void *)(size_t)(p), 0, 3)
#else
#ifdef cl_intel_exec_by_local_thread
#define PREFETCH_L2(p) prefetch((p), (size_t)1)
#else
#define PREFETCH_L2(p) ((void)(p))
#endif
#define PREFETCH_L1(p) PREFETCH_L2(p)
#endif
