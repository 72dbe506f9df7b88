/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of projections: what is exact and what is rounded stands in clattn/tuning.h. */
#include "problem/classes/class_size.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/text/problem_words.h"

/* Rows, columns and terms of a sum in a representative. */
enum { MOST_LENGTH = 65536 };

/* Two axes that could not be merged, rounded so that this stays true: as many elements, and inner
 * axes of about the same length. */
static void round_pair(size_t *outer, size_t *inner, int mergeable)
{
    const size_t all =
        *outer > MOST_LENGTH / *inner ? MOST_LENGTH : ca_size_rounded(*outer * *inner, MOST_LENGTH);
    const size_t rounded = ca_size_rounded(*inner, MOST_LENGTH);

    *inner = *outer == 1 || mergeable || rounded > all ? all : rounded;
    *outer = all / *inner;
}

/* The packed layout with gaps between all elements. */
static clattn_layout spaced(const size_t sizes[4])
{
    clattn_layout layout;

    ca_layout_pack("bhsd", sizes, &layout);
    for (int n = 0; n < 4; n++)
        layout.stride[n] *= 2;
    return layout;
}

/* The simplest layout in which the same axis lies contiguous as in a given one: the last, or the
 * other one, or none. */
static clattn_layout simple_layout(const clattn_layout *given, int other, const size_t sizes[4])
{
    clattn_layout layout = {{0}};

    if (given->stride[3] == 1)
        return layout;
    if (given->stride[other] != 1)
        return spaced(sizes);
    size_t permuted[4] = {sizes[0], sizes[1], sizes[2], sizes[3]};
    permuted[other] =
        sizes[other] > 1 ? sizes[other] : 2; /* else the last axis would be contiguous too */
    ca_layout_pack(other == 2 ? "bhds" : CA_OUT_IN, permuted, &layout);
    return layout;
}

clattn_problem ca_projection_representative(const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;
    const int x_turned = p->x.stride[3] != 1 && p->x.stride[2] == 1;
    clattn_problem made;
    clattn_projection_problem *r = &made.projection;

    clattn_problem_init_operation(&made, CLATTN_PROJECTION);
    r->dtype = p->dtype;
    r->bias = p->bias != 0;
    r->bias_dtype = p->bias ? p->bias_dtype : CLATTN_F32;
    r->accumulate = p->accumulate != 0;
    r->rows = p->batch > MOST_LENGTH ? MOST_LENGTH : p->batch;
    r->rows =
        ca_size_rounded(r->rows * (p->rows < MOST_LENGTH ? p->rows : MOST_LENGTH), MOST_LENGTH);
    r->y_heads = p->y_heads;
    r->y_dim = p->y_dim;
    r->x_heads = p->x_heads;
    r->x_dim = p->x_dim;
    round_pair(&r->x_heads, &r->x_dim, r->rows == 1 || x_turned);
    round_pair(&r->y_heads, &r->y_dim, r->rows == 1);
    r->x = simple_layout(&p->x, 2, (size_t[]){1, r->x_heads, r->rows, r->x_dim});
    r->w = simple_layout(&p->w, 1, (size_t[]){r->x_heads, r->x_dim, r->y_heads, r->y_dim});
    r->y = simple_layout(&p->y, 3, (size_t[]){1, r->y_heads, r->rows, r->y_dim});
    return made;
}
