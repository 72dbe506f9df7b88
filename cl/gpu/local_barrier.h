/* The barrier of kernels whose threads share local memory, and a thread's number. */
#ifndef CLATTN_LOCAL_BARRIER_H
#define CLATTN_LOCAL_BARRIER_H

/* PoCL 3.1 takes a branch right behind a barrier for one that all threads take alike, though it may be
 * a thread's own: the test whether this thread fills anything of a tile, say, which compilers move before
 * the barrier if it was made there already. All threads would then do what the branch leads to. A store
 * that nobody may remove keeps the two apart. Newer PoCLs get no groups that need a barrier on CPUs
 * (src/device/device.c). */
#ifdef POCL_DEVICE_ADDRESS_BITS
#define LOCAL_BARRIER()                                                                            \
    do {                                                                                           \
        volatile int apart;                                                                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        apart = 0;                                                                                 \
    } while (0)
#else
#define LOCAL_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
/* This thread's number in its group, where it is divided: Intel's runtime for CPUs takes an int that is a
 * quotient of the size_t itself, by a power of two, for another one in each thread (tests/drivers/quotient.cl). */
#define THIS_THREAD ((uint)get_local_id(0))

#endif

/* That of a work-group of so many threads (constant), which may be one: a thread alone sees what it has
 * stored, and none must stand there, since PoCL 6.0 takes what is behind some of them for unreachable
 * and runs on into nowhere (tests/drivers/one_item.cl). */
#define LOCAL_BARRIER_OF(threads)                                                                  \
    do {                                                                                           \
        if ((threads) > 1)                                                                         \
            LOCAL_BARRIER();                                                                       \
    } while (0)

/* This thread's number in its group, where it is divided: Intel's runtime for CPUs takes an int that is a
 * quotient of the size_t itself, by a power of two, for another one in each thread (tests/drivers/quotient.cl). */
#define THIS_THREAD ((uint)get_local_id(0))

#endif
