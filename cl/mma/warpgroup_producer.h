/* SPDX-License-Identifier: Apache-2.0 */
/* A producer warpgroup copies tiles to STAGES buffers ("places") of local memory by cp.async; other
 * warpgroups compute. Each waits for the tile that it needs, not for the others. A place has two
 * halves, 0 and 1, with two mbarriers each: one that copies complete, one at which each sub-group
 * that has read it arrives. With dropout 2 stands for the bits of what is kept (fragment_dropout.h).
 *
 *   wait_for_place()                 the producer waits until the half may be overwritten
 *   copies_asked()                   the producer has asked for its copies; all: none was a plain store
 *   stored()                         it has stored what it computed
 *   HALF_HERE(use, half, copies)     the other warpgroups wait for the copies
 *   STORES_HERE(use, half, stores)   they wait for what was stored
 *   half_read()                      the other warpgroups have read the half
 *   take_fewer_registers(), take_more_registers()   the producer gives the others most of its registers (setmaxnreg)
 *
 * Emulated   there is no producer: all wait for each other, and the first warpgroup copies what is needed next, `copies`. */
#pragma once
#include "mma/computing.h"
#include "mma/warpgroup_tile.h"

#ifndef PLACES_OF_STAGES
#define PLACES_OF_STAGES STAGES
#endif
/* The numbers of a half's barriers: where copies are complete, and where they are read. */
INLINE int copies_complete(const int n)
{
    return 2 * n;
}

INLINE int copies_read(const int n)
{
    return 2 * n + 1;
}

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
 * 3 * 160). A producer that draws from four counters at once or reads block lists has 128 * (56 + 2 * 224) or
 * 128 * (56 + 3 * 152), and two such warpgroups have 128 * (2 * 48 + 2 * 208). The host counts with
 * them. */
enum {
    OTHER_WORK = HAS_DROPOUT || HAS_BLOCKS,
    PRODUCER_REGISTERS = DRAWERS == 2       ? 48
                         : OTHER_WORK       ? 56
                         : SUB_GROUPS == 12 ? 32
                                            : 40,
    COMPUTING_REGISTERS = DRAWERS == 2       ? 208
                          : SUB_GROUPS == 12 ? (OTHER_WORK ? 152 : 160)
                                             : (OTHER_WORK ? 224 : 232)
};

INLINE void take_fewer_registers(void)
{
    __asm volatile(SM_90A "setmaxnreg.dec.sync.aligned.u32 %0;"
                   :
                   : "n"(PRODUCER_REGISTERS)
                   : "memory");
}

INLINE void take_more_registers(void)
{
    __asm volatile(SM_90A "setmaxnreg.inc.sync.aligned.u32 %0;"
                   :
                   : "n"(COMPUTING_REGISTERS)
                   : "memory");
}

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
        const bool drawn = n % PLACE_BARRIERS == copies_complete(2);
        start_barrier(barriers + n + copies_complete(0), FILL_THREADS * (drawn ? DRAWERS : 1));
        start_barrier(barriers + n + copies_read(0), SUB_GROUPS);
    }
}

/* Waits for the producer's copies and makes them visible to the tensor cores. */
INLINE void wait_for_copies(__local ulong *barrier, const uint parity)
{
    wait_for(barrier, parity);
    __asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory");
}

INLINE __local ulong *barrier_of(__local ulong *barriers, const struct use u, const int which)
{
    return barriers + u.place * PLACE_BARRIERS + which;
}

/* A barrier that nobody has arrived at counts as complete for the parity before. */
INLINE void wait_for_place(__local ulong *barriers, const struct use u, const int n)
{
    wait_for(barrier_of(barriers, u, copies_read(n)), u.parity ^ 1);
}

INLINE void stored(__local ulong *barriers, const struct use u, const int n)
{
    arrive_at(barrier_of(barriers, u, copies_complete(n)));
}

INLINE void copies_asked(__local ulong *barriers, const struct use u, const int n, const bool all)
{
    arrive_with_copies(barrier_of(barriers, u, copies_complete(n)), all);
}

#define HALF_HERE(u, half, copies)                                                                 \
    wait_for_copies(barrier_of(barriers, u, copies_complete(half)), (u).parity)
#define STORES_HERE(u, half, stores)                                                               \
    wait_for(barrier_of(barriers, u, copies_complete(half)), (u).parity)
#else
#define HALF_HERE(u, half, copies)                                                                 \
    do {                                                                                           \
        LOCAL_BARRIER(); /* all have read the old contents */                                      \
        if (THIS_THREAD < FILL_THREADS) {                                                          \
            copies;                                                                                \
        }                                                                                          \
        LOCAL_BARRIER(); /* the copies are complete */                                             \
    } while (0)
#define STORES_HERE(u, half, stores) HALF_HERE(u, half, stores)
#endif

INLINE void half_read(__local ulong *barriers, const struct use u, const int n, const int lane)
{
#if !EMULATE
    if (lane == 0)
        arrive_at(barrier_of(barriers, u, copies_read(n)));
#endif
}
