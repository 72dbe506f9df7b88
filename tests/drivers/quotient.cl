/* SPDX-License-Identifier: Apache-2.0 */
/* Local memory at a quotient of the item's number, which is a size_t that becomes an int. Intel's runtime
 * for CPUs reads the next element for each next item, not for every fourth. -DUINT divides an uint instead. */
#ifdef UINT
#define ITEM ((uint)get_local_id(0))
#else
#define ITEM get_local_id(0)
#endif

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void probe(__global int *right)
{
    __local int tile[64];
    const int item = get_local_id(0), quarter = ITEM / 4;

    tile[item] = item;
    barrier(CLK_LOCAL_MEM_FENCE);
    right[get_global_id(0)] = tile[quarter] == item / 4;
}
