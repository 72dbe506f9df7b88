/* SPDX-License-Identifier: Apache-2.0 */
/* The marks that a family's first stage makes of masks, biases and mask functions (cl/score/mark_pairs.h). */
#ifndef CA_PAIR_MARKS_H
#define CA_PAIR_MARKS_H

#include "families/family.h"

/* Returns whether the problem gets marks: its sizes, and the sharing of its mask and bias,
 * decide. */
int ca_marks_pairs(const struct ca_problem *p);

/* The bytes of marks of mark_m queries and mark_n keys in the workspace; 0 without marks. */
size_t ca_pair_marks_bytes(const struct ca_problem *p, size_t mark_m, size_t mark_n);

/* The launch has one work-item for each mark_m queries of each map of marks; none without marks. */
struct ca_ndrange ca_pair_marks_ndrange(const struct ca_problem *p, size_t mark_m);

/* The launch has one group of `items` work-items for each mark; none without marks. */
struct ca_ndrange ca_pair_marks_group_ndrange(const struct ca_problem *p, size_t mark_m,
                                              size_t mark_n, size_t items);

/* The stage that makes marks, for a family's list of stages; the family gives its ndrange. */
#define CA_MARK_PAIRS(ndrange)                                                                     \
    {                                                                                              \
        "mark_pairs",                                                                              \
            CA_BIT(CA_BIAS) | CA_BIT(CA_MASK) | CA_FUNCTION_BITS | CA_BIT(CA_Q_LENGTHS) |          \
                CA_BIT(CA_KV_LENGTHS) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_OF_MARKS,            \
            ndrange                                                                                \
    }

#endif
