/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a work-group, of which COMPUTING compute, as the kernel says. With PRODUCER another warpgroup fills
 * tiles (mma/warpgroup_producer.h), with two DRAWERS one more draws random numbers, and each warpgroup fills its own rows with
 * 128 threads. */
#pragma once
#include "gpu/local_barrier.h"

#if PRODUCER
#define FILL_THREADS 128
#define FILL_THREAD (THIS_THREAD % FILL_THREADS)
#define MOST_COPIES 16
#define THREADS (COMPUTING + (EMULATE ? 0 : FILL_THREADS * MAX(DRAWERS, 1)))
#else
#define THREADS COMPUTING
#endif

/* The barriers of all threads, and of those that compute. */
#if PRODUCER && !EMULATE
INLINE void group_barrier(void)
{
    __asm volatile("bar.sync 0, %0;" : : "n"(THREADS) : "memory");
}

INLINE void computing_barrier(void)
{
    __asm volatile("bar.sync 1, %0;" : : "n"(COMPUTING) : "memory");
}
#else
INLINE void group_barrier(void)
{
    LOCAL_BARRIER();
}

INLINE void computing_barrier(void)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    LOCAL_BARRIER();
}
#endif
