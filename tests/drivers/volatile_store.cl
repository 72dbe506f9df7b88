/* SPDX-License-Identifier: Apache-2.0 */
/* A volatile store behind a barrier: with it PoCL 6.0 may take a value that is an item's own, here where
 * it reads sums[], for the first item's. */
#ifdef WITHOUT
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#else
#define BARRIER()                                                                                  \
    do {                                                                                           \
        volatile int apart;                                                                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        apart = 0;                                                                                 \
    } while (0)
#endif

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void probe(__global int *right)
{
    __local float factors[2], sums[64];
    const int item = get_local_id(0);
    float x = 0.0f;

    for (int n = item; n < 2; n += 64)
        factors[n] = 1.0f;
    BARRIER();
    for (int n = item / 32; n < 2; n += 2)
        x += (float)item * factors[n];
    sums[item] = x;
    BARRIER();
    if (item >= 32) {
        right[get_global_id(0)] = 1;
        return;
    }
    for (int n = 1; n < 2; n++)
        x += sums[n * 32 + item];
    right[get_global_id(0)] = x == (float)(2 * item + 32);
}
