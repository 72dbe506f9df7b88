/* SPDX-License-Identifier: Apache-2.0 */
#include "families/pair_marks.h"
#include "base/sizes.h"
#include "cl/score/mark_sizes.h"
#include "problem/function.h"

/* The number of batches (dimension 0) or heads (1) with marks of their own. */
static size_t maps(const clattn_problem *p, int dimension)
{
    const int own = (p->mask && p->mask_layout.stride[dimension]) ||
                    (p->bias && p->bias_layout.stride[dimension]);

    if (p->mask_function && ca_function_asks_for(p->mask_function, dimension))
        return dimension ? p->heads : p->batch;
    if (p->mask_function && dimension == 0 && (p->q_lengths || p->kv_lengths))
        return p->batch;
    return !own ? 1 : dimension ? p->heads : p->batch;
}

/* Is true for all sizes and broadcasts, since a program serves all of them. In these problems tiles
 * begin at multiples of their length. */
int ca_has_pair_marks(const clattn_problem *p)
{
    return (p->mask || p->bias || p->mask_function) && !p->block_q && !p->page_size &&
           !p->mask_keys && !p->total_q && !p->total_kv && p->window_left == CLATTN_UNLIMITED;
}

/* The rule is that of cl/score/mark_pairs.h. */
int ca_marks_pairs(const clattn_problem *p)
{
    const int pairs = p->mask_function ||
                      (p->mask && p->mask_layout.stride[2] && p->mask_layout.stride[3]) ||
                      (p->bias && p->bias_layout.stride[2] && p->bias_layout.stride[3]);
    const size_t sharers =
        p->operation == CLATTN_BACKWARD ? BACKWARD_MARK_SHARERS : FORWARD_MARK_SHARERS;

    return ca_has_pair_marks(p) && pairs && p->seq_q >= LEAST_MARKED_QUERIES &&
           p->seq_kv >= LEAST_MARKED_KEYS &&
           (p->mask_function || p->heads * p->batch >= sharers * maps(p, 0) * maps(p, 1) ||
            p->seq_q * p->seq_kv <= FEW_MARKED_PAIRS);
}

size_t ca_pair_marks_bytes(const clattn_problem *p, size_t mark_m, size_t mark_n)
{
    const size_t marks =
        maps(p, 0) * maps(p, 1) * ca_divide_up(p->seq_q, mark_m) * ca_divide_up(p->seq_kv, mark_n);

    return ca_marks_pairs(p) ? ca_divide_up(marks, sizeof(cl_float)) * sizeof(cl_float) : 0;
}

struct ca_ndrange ca_pair_marks_ndrange(const clattn_problem *p, size_t mark_m)
{
    const size_t blocks = ca_marks_pairs(p) ? ca_divide_up(p->seq_q, mark_m) : 0;

    return ca_single_items(blocks, maps(p, 1), maps(p, 0));
}

struct ca_ndrange ca_pair_marks_group_ndrange(const clattn_problem *p, size_t mark_m, size_t mark_n,
                                              size_t items)
{
    struct ca_ndrange range = ca_pair_marks_ndrange(p, mark_m);

    range.global[0] *= ca_divide_up(p->seq_kv, mark_n) * items;
    range.local[0] = items;
    return range;
}
