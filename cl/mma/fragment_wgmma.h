/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's wgmma.mma_async.m64nNk16, by inline PTX (sm_90a: Hopper alone).
 *
 * Four sub-groups, a warpgroup, multiply 64 queries with a whole tile that the tensor cores read
 * from local memory (warpgroup_products.h). Each sub-group has 16 of the queries, with the register
 * layout of mma.sync.m16n8k16 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"). */
#pragma once
#include "mma/fragment_mma_sync.h"

#if !EMULATE
/* See src/program/ptx.h. */
#define SM_90A "//sm_90a "

/* Ends the kernel in the driver's first assembly, in which the instructions above are still
 * comments. The code after it is then dead and not assembled, which would take a fifth of a
 * program's time. */
#define LEAVE_FIRST_ASSEMBLY()                                                                     \
    do {                                                                                           \
        uint assembles;                                                                            \
        __asm volatile("mov.u32 %0, 0;\n\t" SM_90A "mov.u32 %0, 1;" : "=r"(assembles));            \
        if (!assembles)                                                                            \
            return;                                                                                \
    } while (0)

/* Makes this thread's stores to local memory visible to the tensor cores after the next barrier. */
static inline void tiles_stored(void)
{
    async_copies_wait();
    __asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory");
}
/* Makes one group of the copies begun since the last call. COPIES_WAIT_BUT waits for all but the
 * latest. */
static inline void copies_begin(void)
{
    __asm volatile("cp.async.commit_group;" : : : "memory");
}
#define COPIES_WAIT_BUT(latest)                                                                    \
    do {                                                                                           \
        __asm volatile("cp.async.wait_group %0;" : : "n"(latest) : "memory");                      \
        __asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory");                    \
    } while (0)
#else
static inline void copies_begin(void)
{
}
#define COPIES_WAIT_BUT(latest)
#define LEAVE_FIRST_ASSEMBLY()

static inline void tiles_stored(void)
{
}
#endif
