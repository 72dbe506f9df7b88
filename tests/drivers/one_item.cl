/* SPDX-License-Identifier: Apache-2.0 */
/* Two barriers in a loop that all items of a group leave alike, by `break` and `continue`. With
 * -DITEMS=1, and 2, PoCL 6.0 takes what follows the second barrier for unreachable. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void probe(__global int *right)
{
    __local int tile[32], other[32];
    const int rows = get_num_groups(0) * 16 - 5; /* 59 */
    bool complete = false;
    int total = 0;
    for (int sweep = 0; sweep < 16; sweep++) {
        const int first = (get_group_id(0) * 2 + sweep) * 8;
        const bool multiply = first < rows && min(first + 8, rows) <= rows;
        int sum = 0;
        if (first >= rows)
            break;
        if (!multiply)
            continue;
        for (int d = 0; d < 64 && multiply; d += 64) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (!complete)
                for (int n = get_local_id(0); n < 32; n += ITEMS)
                    tile[n] = n;
            complete = true;
            for (int n = get_local_id(0); n < 32; n += ITEMS)
                other[n] = n;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int n = 0; n < 32; n++)
                sum += tile[n] + other[n];
        }
        total += sum;
    }
    right[get_global_id(0)] = total > 0 && total % (496 * 2) == 0;
}
