/* SPDX-License-Identifier: Apache-2.0 */
#include "families/pair_marks.h"
#include "base/sizes.h"
#include "cl/score/mark_sizes.h"
#include "problem/function.h"

/* The number of batches (dimension 0) or heads (1) with marks of their own. */
static size_t maps(const struct ca_problem *p, int dimension)
{
    const int own = (p->normal.mask && p->normal.mask_layout.stride[dimension]) ||
                    (p->normal.bias && p->normal.bias_layout.stride[dimension]);

    if (p->normal.mask_function && ca_function_asks_for(p->normal.mask_function, dimension))
        return dimension ? p->normal.heads : p->normal.batch;
    if (p->normal.mask_function && dimension == 0 && (p->normal.q_lengths || p->normal.kv_lengths))
        return p->normal.batch;
    if (dimension == 0 &&
        (p->normal.total_q || p->normal.total_kv)) /* sequences of other lengths */
        return p->normal.batch;
    return !own ? 1 : dimension ? p->normal.heads : p->normal.batch;
}

/* Is true for all sizes and broadcasts, since a program serves all of them. In these problems tiles
 * begin at multiples of their length, but with pages. */
int ca_has_pair_marks(const struct ca_problem *p)
{
    return (p->normal.mask || p->normal.bias || p->normal.mask_function) && !p->normal.block_q &&
           !p->normal.mask_keys && p->normal.window_left == CLATTN_UNLIMITED;
}

/* The rule is that of cl/score/mark_pairs.h. */
int ca_marks_pairs(const struct ca_problem *p)
{
    const int pairs =
        p->normal.mask_function ||
        (p->normal.mask && p->normal.mask_layout.stride[2] && p->normal.mask_layout.stride[3]) ||
        (p->normal.bias && p->normal.bias_layout.stride[2] && p->normal.bias_layout.stride[3]);
    const size_t sharers =
        p->normal.operation == CLATTN_BACKWARD ? BACKWARD_MARK_SHARERS : FORWARD_MARK_SHARERS;

    return ca_has_pair_marks(p) && pairs && p->normal.seq_q >= LEAST_MARKED_QUERIES &&
           p->normal.seq_kv >= LEAST_MARKED_KEYS &&
           (p->normal.mask_function ||
            p->normal.heads * p->normal.batch >= sharers * maps(p, 0) * maps(p, 1) ||
            p->normal.seq_q * p->normal.seq_kv <= FEW_MARKED_PAIRS);
}

size_t ca_pair_marks_bytes(const struct ca_problem *p, size_t mark_m, size_t mark_n)
{
    const size_t marks = maps(p, 0) * maps(p, 1) * ca_divide_up(p->normal.seq_q, mark_m) *
                         ca_divide_up(p->normal.seq_kv, mark_n);

    return ca_marks_pairs(p) ? ca_divide_up(marks, sizeof(cl_float)) * sizeof(cl_float) : 0;
}

struct ca_ndrange ca_pair_marks_ndrange(const struct ca_problem *p, size_t mark_m)
{
    const size_t blocks = ca_marks_pairs(p) ? ca_divide_up(p->normal.seq_q, mark_m) : 0;

    return ca_single_items(blocks, maps(p, 1), maps(p, 0));
}

struct ca_ndrange ca_pair_marks_group_ndrange(const struct ca_problem *p, size_t mark_m,
                                              size_t mark_n, size_t items)
{
    struct ca_ndrange range = ca_pair_marks_ndrange(p, mark_m);

    range.global[0] *= ca_divide_up(p->normal.seq_kv, mark_n) * items;
    range.local[0] = items;
    return range;
}
