/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of chosen keys (HAS_TOPK, "Chosen keys" in clattn/problem.h): one of each query, or of each query and kv head.
 *
 * An entry may hold anything: one that is no key, or that stands before in its list, is none. */
#pragma once
#include "common/common.h"

#if HAS_TOPK
/* The list of query i for head h of batch b. Packed sequences have entered theirs (sequence.h). */
INLINE const __global int *list_of_keys(const struct arguments *args, const long b, const long h,
                                        const long i)
{
    const long heads = HAS_TOPK_HEADS ? args->shape->kv_heads : 1;
    const long head = HAS_TOPK_HEADS ? h / args->shape->group : 0;
    const long rows = HAS_TOTAL_Q ? args->shape->total_q : args->shape->seq_q;
    const long block = HAS_TOTAL_Q ? 0 : b;

    return args->topk_indices + ((block * heads + head) * rows + i) * args->shape->topk;
}

/* Key number n of a list; -1 if an entry before it is the same. */
INLINE long listed_key(const __global int *list, const long n)
{
    const int key = list[n];

    for (long before = 0; before < n; before++)
        if (list[before] == key)
            return -1;
    return key;
}
#endif
