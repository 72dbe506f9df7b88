/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier of kernels with threads that share local memory, and a thread's number. */
#pragma once

/* PoCL 3.1 assumes that all threads agree at a branch right after a barrier. But compilers may move
 * a thread's own test there, such as whether it fills part of a tile, if it was evaluated before
 * the barrier. All threads would then take that branch. A store that cannot be removed keeps the
 * two apart. Newer PoCLs get no groups that need a barrier on CPUs (src/device/device.c). */
#ifdef POCL_DEVICE_ADDRESS_BITS
#define STORE_APART()                                                                              \
    do {                                                                                           \
        volatile int apart;                                                                        \
        apart = 0;                                                                                 \
    } while (0)
#else
#define STORE_APART()
#endif
#define LOCAL_BARRIER()                                                                            \
    do {                                                                                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        STORE_APART();                                                                             \
    } while (0)

/* The last statement of a kernel that may return before its barriers (LEAVE_IF_BEYOND in common/sequence.h).
 * PoCL 3.1 miscompiles an `if` that ends where such a return does: it supposes that all threads take the same
 * branch, or that none does (tests/drivers/early_return.cl). So a statement follows the `if`. */
#define END_KERNEL() STORE_APART()

/* The barrier of a work-group of `threads` threads (constant). A single thread sees its own stores
 * and must have no barrier: PoCL 6.0 takes code after some of them for unreachable and runs past
 * its end (tests/drivers/one_item.cl). */
#define LOCAL_BARRIER_OF(threads)                                                                  \
    do {                                                                                           \
        if ((threads) > 1)                                                                         \
            LOCAL_BARRIER();                                                                       \
    } while (0)

/* This thread's number in its group, in a form that may be divided. Intel's runtime for CPUs gives
 * an int quotient of the size_t by a power of two another value in each thread
 * (tests/drivers/quotient.cl). */
#define THIS_THREAD ((uint)get_local_id(0))
