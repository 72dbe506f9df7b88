/* SPDX-License-Identifier: Apache-2.0 */
/* The common sizes of forward kernels with work-groups that own a block of queries of a (batch,
 * head). */
#ifndef CA_BLOCK_SIZES_H
#define CA_BLOCK_SIZES_H

#include "base/sizes.h"
#include "families/family.h"

/* Returns whether such kernels keep more values for each row of an item than scores and sums:
 * addresses in a mask or a bias, or dropout's bits. */
static inline int ca_keeps_more(const clattn_problem *p)
{
    return p->mask || p->bias || p->dropout > 0.0f;
}

#endif
