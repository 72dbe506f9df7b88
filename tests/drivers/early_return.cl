/* SPDX-License-Identifier: Apache-2.0 */
/* A group that returns before a barrier, and an `if` that ends where this return does, at the kernel's end:
 * PoCL 3.1 may take that `if` for one that all items take alike, or all groups for ones that return. */
__kernel __attribute__((reqd_work_group_size(16, 1, 1))) void probe(__global int *right)
{
    __local int apart[16];
    const int item = get_local_id(0);

    right[get_global_id(0)] = 1;
    if (get_group_id(0) == 3)
        return;
    apart[item] = item < 10;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 10 && !apart[item])
        right[get_global_id(0)] = 0;
#ifdef STORE
    volatile int end = 0;
#endif
}
