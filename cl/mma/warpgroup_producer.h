/* SPDX-License-Identifier: Apache-2.0 */
/* A producer warpgroup copies tiles to STAGES buffers ("places") of local memory by cp.async; other
 * warpgroups compute. Each waits for the tile that it needs, not for the others. A place has two
 * halves, 0 and 1, with two mbarriers each: one that copies complete, one at which each sub-group
 * that has read it arrives. With dropout 2 stands for the bits of what is kept (fragment_dropout.h).
 *
 *   PLACE_FREE(use, half)            the producer waits until the half may be overwritten
 *   COPIES_ASKED(use, half, all)     the producer has asked for its copies; all: none was a plain store
 *   STORED(use, half)                it has stored what it computed
 *   HALF_HERE(use, half, copies)     the other warpgroups wait for the copies
 *   STORES_HERE(use, half, stores)   they wait for what was stored
 *   HALF_READ(use, half)             the other warpgroups have read the half
 *   FEWER_REGISTERS() MORE_REGISTERS()   by the producer and the others: it gives them most of its own (setmaxnreg)
 *
 * Emulated   there is no producer: all wait for each other, and the first warpgroup copies what is needed next, `copies`. */
#pragma once
#include "mma/computing.h"
#include "mma/warpgroup_tile.h"

#ifndef PLACES_OF_STAGES
#define PLACES_OF_STAGES STAGES
#endif
#define COPIES_COMPLETE(half) (2 * (half))
#define COPIES_READ(half) (2 * (half) + 1)

/* The buffer of a tile, and the parity of the buffer's current use. */
struct use {
    int place;
    uint parity;
};

/* The state that kernels declare and pass on: the mbarriers, and the next use. */
struct stream {
    __local ulong *barriers;
    struct use next;
};
#define STREAM                                                                                     \
    __local ulong barriers[PLACES_OF_STAGES * PLACE_BARRIERS];                                     \
    struct stream stream = {barriers, {0, 0}}

INLINE struct use next_use(struct use u)
{
    if (++u.place == PLACES_OF_STAGES) {
        u.place = 0;
        u.parity ^= 1;
    }
    return u;
}

#if !EMULATE
/* Together these are at most the registers of a multiprocessor: 128 * (40 + 2 * 232) or 128 * (32 +
 * 3 * 160). A producer that draws random numbers or reads block lists has 128 * (56 + 2 * 224) or
 * 128 * (56 + 3 * 152), and two such warpgroups have 128 * (2 * 48 + 2 * 208). The host counts with
 * them. */
#if DRAWERS == 2
#define PRODUCER_REGISTERS 48
#define COMPUTING_REGISTERS 208
#elif DRAWERS || HAS_BLOCKS
#define PRODUCER_REGISTERS 56
#define COMPUTING_REGISTERS (SUB_GROUPS == 12 ? 152 : 224)
#else
#define PRODUCER_REGISTERS (SUB_GROUPS == 12 ? 32 : 40)
#define COMPUTING_REGISTERS (SUB_GROUPS == 12 ? 160 : 232)
#endif
#define FEWER_REGISTERS()                                                                          \
    __asm volatile(SM_90A "setmaxnreg.dec.sync.aligned.u32 %0;"                                    \
                   :                                                                               \
                   : "n"(PRODUCER_REGISTERS)                                                       \
                   : "memory")
#define MORE_REGISTERS()                                                                           \
    __asm volatile(SM_90A "setmaxnreg.inc.sync.aligned.u32 %0;"                                    \
                   :                                                                               \
                   : "n"(COMPUTING_REGISTERS)                                                      \
                   : "memory")

INLINE void start_barrier(__local ulong *barrier, const uint arrivals)
{
    __asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                   :
                   : "r"(shared_address(barrier)), "r"(arrivals)
                   : "memory");
}

INLINE void wait_for(__local ulong *barrier, const uint parity)
{
    __asm volatile("{.reg .pred complete; TRY_AGAIN: mbarrier.try_wait.parity.shared.b64 complete, "
                   "[%0], %1; @!complete bra TRY_AGAIN;}"
                   :
                   : "r"(shared_address(barrier)), "r"(parity)
                   : "memory");
}

INLINE void arrive_at(__local ulong *barrier)
{
    __asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}"
                   :
                   : "r"(shared_address(barrier))
                   : "memory");
}

/* Arrives once the thread's copies are complete. */
INLINE void arrive_with_copies(__local ulong *barrier, const bool all)
{
    if (all) {
        __asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"
                       :
                       : "r"(shared_address(barrier))
                       : "memory");
    } else {
        copies_wait();
        arrive_at(barrier);
    }
}

/* Called by one thread; the next barrier of the group completes it. */
INLINE void start_barriers(__local ulong *barriers)
{
    for (int n = 0; n < PLACES_OF_STAGES * PLACE_BARRIERS; n += 2) {
        const bool drawn = n % PLACE_BARRIERS == COPIES_COMPLETE(2);
        start_barrier(barriers + n + COPIES_COMPLETE(0), FILL_THREADS * (drawn ? DRAWERS : 1));
        start_barrier(barriers + n + COPIES_READ(0), SUB_GROUPS);
    }
}

/* Waits for the producer's copies and makes them visible to the tensor cores. */
INLINE void wait_for_copies(__local ulong *barrier, const uint parity)
{
    wait_for(barrier, parity);
    __asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory");
}

#define BARRIER(u, which) (barriers + (u).place * PLACE_BARRIERS + (which))
/* A barrier that nobody has arrived at counts as complete for the parity before. */
#define PLACE_FREE(u, half) wait_for(BARRIER(u, COPIES_READ(half)), (u).parity ^ 1)
#define STORED(u, half) arrive_at(BARRIER(u, COPIES_COMPLETE(half)))
#define COPIES_ASKED(u, half, all) arrive_with_copies(BARRIER(u, COPIES_COMPLETE(half)), all)
#define HALF_HERE(u, half, copies) wait_for_copies(BARRIER(u, COPIES_COMPLETE(half)), (u).parity)
#define STORES_HERE(u, half, stores) wait_for(BARRIER(u, COPIES_COMPLETE(half)), (u).parity)
#define HALF_READ(u, half)                                                                         \
    do {                                                                                           \
        if (lane == 0)                                                                             \
            arrive_at(BARRIER(u, COPIES_READ(half)));                                              \
    } while (0)
#else
#define FEWER_REGISTERS()
#define MORE_REGISTERS()
#define HALF_HERE(u, half, copies)                                                                 \
    do {                                                                                           \
        LOCAL_BARRIER(); /* all have read the old contents */                                      \
        if (THIS_THREAD < FILL_THREADS) {                                                          \
            copies;                                                                                \
        }                                                                                          \
        LOCAL_BARRIER(); /* the copies are complete */                                             \
    } while (0)
#define STORES_HERE(u, half, stores) HALF_HERE(u, half, stores)
#define HALF_READ(u, half)
#endif
