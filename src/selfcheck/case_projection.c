/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of projections. An answer is a sum of x_heads * x_dim products, the bias and the previous
 * y; its error follows the rules of answer.c. */
#include "problem/layout.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers -------------------------------------------------------------------------------- */

/* The rows of x that are judged, one after the other, each with its x_heads * x_dim elements. */
static void load_rows(const struct ca_trust_case *c, double *x)
{
    const clattn_projection_problem *p = &c->problem.projection;

    for (size_t n = 0; n < c->num_answers; n++)
        for (size_t h = 0; h < p->x_heads; h++, x += p->x_dim)
            ca_values_load(ca_trust_elements(c, CA_PROJECTION_X), p->dtype,
                           ca_trust_position(&p->x, c->answers[n].at[0], h, c->answers[n].at[2], 0),
                           p->x.stride[3], p->x_dim, x);
}

/* Adds the products of all judged rows with w[h][d], which is read once. The magnitudes are summed
 * in the bounds. */
static void add_products(const struct ca_trust_case *c, size_t h, size_t d, const double *x,
                         double *w)
{
    const clattn_projection_problem *p = &c->problem.projection;
    const size_t terms = p->x_heads * p->x_dim, term = h * p->x_dim + d;

    for (size_t g = 0; g < p->y_heads; g++)
        ca_values_load(ca_trust_elements(c, CA_PROJECTION_W), p->dtype,
                       ca_trust_position(&p->w, h, d, g, 0), p->w.stride[3], p->y_dim,
                       w + g * p->y_dim);
    for (size_t n = 0; n < c->num_answers; n++) {
        struct ca_bounded *y = c->answers[n].want;
        const double factor = x[n * terms + term];
        const double *values = w + c->answers[n].at[1] * p->y_dim;
        for (size_t e = 0; e < p->y_dim; e++) {
            const double product = factor * values[e];
            y[e].value += product;
            y[e].bound += fabs(product);
        }
    }
}

/* Adds bias and previous contents, and turns the magnitudes' sum into a bound. */
static void finish(const struct ca_trust_case *c, const struct ca_answer *answer)
{
    const clattn_projection_problem *p = &c->problem.projection;
    const double rounding = ca_trust_length_error(p->x_heads * p->x_dim + 2);

    for (size_t e = 0; e < p->y_dim; e++) {
        struct ca_bounded *y = &answer->want[e];
        const double bias = p->bias ? ca_value_load(ca_trust_elements(c, CA_PROJECTION_BIAS),
                                                    p->bias_dtype, answer->at[1] * p->y_dim + e)
                                    : 0.0;
        const double before = p->accumulate
                                  ? ca_value_load(ca_trust_elements(c, CA_PROJECTION_Y), p->dtype,
                                                  answer->first + e * answer->step)
                                  : 0.0;
        y->value += bias + before;
        y->bound = rounding * (y->bound + fabs(bias) + fabs(before)) + FLT_MIN;
        y->bound += ca_value_rounding(p->dtype, fabs(y->value) + y->bound);
    }
}

static int solve(struct ca_trust_case *c)
{
    const clattn_projection_problem *p = &c->problem.projection;
    double *x = malloc(c->num_answers * p->x_heads * p->x_dim * sizeof *x);
    double *w = malloc(p->y_heads * p->y_dim * sizeof *w);
    const int complete = x && w && ca_trust_keep_before(c);

    if (complete) {
        load_rows(c, x);
        for (size_t h = 0; h < p->x_heads; h++)
            for (size_t d = 0; d < p->x_dim; d++)
                add_products(c, h, d, x, w);
        for (size_t n = 0; n < c->num_answers; n++)
            finish(c, &c->answers[n]);
    }
    free(x);
    free(w);
    return complete;
}

/* Room for the rows of y, counted (b, g, i). */
static int allocate(struct ca_trust_case *c, struct ca_sample rows)
{
    const clattn_projection_problem *p = &c->problem.projection;

    if (!ca_trust_allocate(c, rows.count, rows.count * p->y_dim))
        return 0;
    for (size_t n = 0; n < rows.count; n++) {
        const size_t row = ca_trust_place(&rows, n);
        ca_trust_answer(c, CA_PROJECTION_Y, row / p->rows / p->y_heads, row / p->rows % p->y_heads,
                        row % p->rows, p->y_dim);
    }
    return 1;
}

/* ---- the hostile case ----------------------------------------------------------------------- */

/* Ragged, with heads that strides keep apart, which may end within a tile or hold several; sums
 * longer than any part of them that is summed at a time. In pieces of 16 bytes, heads of x are whole stages of a tile's
 * depth, and all steps, gaps included, whole pieces. */
enum { BATCH = 2, HEADS_X = 3, HEADS_Y = 2, ROWS = 67, DIM_X = 367, DIM_Y = 149 };
enum { PIECE = 8, PIECES_X = 384, PIECES_Y = 152 };
/* Where x is pairs throughout, heads of it and steps are even. */
enum { PAIR_GAP = 4 };

/* Places of a NaN in x and of an infinity in w: they belong to one row and to one column. */
enum { BAD_ROW = 11, BAD_DEPTH = 200, BAD_COLUMN = 77 };

/* A layout with gaps and the real layout's contiguous axis: the last, another one, or none. */
static clattn_layout keep_axis(const clattn_layout *real, int other, const size_t sizes[4],
                               size_t gap)
{
    static const int usual[4] = {0, 1, 2, 3}, rows[4] = {0, 1, 3, 2}, out_in[4] = {2, 3, 0, 1};

    if (real->stride[3] == 1)
        return ca_trust_gapped(usual, sizes, 1, gap);
    if (real->stride[other] != 1)
        return ca_trust_gapped(usual, sizes, 2, gap);
    return ca_trust_gapped(other == 2 ? rows : out_in, sizes, 1, gap);
}

static clattn_problem shrink(const clattn_problem *real, int in_pieces)
{
    const int pairs = ca_projection_x_in_pairs(&real->projection);
    const size_t gap = in_pieces ? PIECE : CA_TRUST_GAP;
    const size_t gap_x = in_pieces ? PIECE : pairs ? PAIR_GAP : CA_TRUST_GAP;
    const size_t dim_x = in_pieces ? PIECES_X : DIM_X - (pairs != 0);
    const size_t dim_y = in_pieces ? PIECES_Y : DIM_Y;
    clattn_problem made = *real;
    clattn_projection_problem *p = &made.projection;
    const clattn_projection_problem *r = &real->projection;

    p->batch = BATCH;
    p->x_heads = HEADS_X;
    p->y_heads = HEADS_Y;
    p->rows = ROWS;
    p->x_dim = dim_x;
    p->y_dim = dim_y;
    p->x = keep_axis(&r->x, 2, (size_t[]){BATCH, HEADS_X, ROWS, dim_x}, gap_x);
    p->w = keep_axis(&r->w, 1, (size_t[]){HEADS_X, dim_x, HEADS_Y, dim_y}, gap);
    p->y = keep_axis(&r->y, 3, (size_t[]){BATCH, HEADS_Y, ROWS, dim_y}, gap);
    return made;
}

/* One tolerance serves all, since sizes and magnitudes are known. */
static void set_bounds(struct ca_trust_case *c)
{
    const double tolerance = c->problem.projection.dtype == CLATTN_F32   ? 1e-4
                             : c->problem.projection.dtype == CLATTN_F16 ? 2e-3
                                                                         : 1e-2;

    for (size_t n = 0; n < c->num_answers; n++)
        for (size_t e = 0; e < c->answers[n].count; e++) {
            struct ca_bounded *y = &c->answers[n].want[e];
            y->bound = tolerance * fmax(1.0, fabs(y->value));
        }
}

static int make(struct ca_trust_case *c, const clattn_problem *real, int in_pieces)
{
    unsigned state = 20240229u;

    c->problem = shrink(real, in_pieces);
    const clattn_projection_problem *p = &c->problem.projection;
    if (!allocate(c, ca_trust_each((size_t)BATCH * HEADS_Y * ROWS)))
        return 0;
    ca_trust_fill_elements(c, CA_PROJECTION_X, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_elements(c, CA_PROJECTION_W, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_elements(c, CA_PROJECTION_BIAS, p->bias_dtype, -1.0f, 1.0f, &state);
    if (p->accumulate)
        ca_trust_fill_elements(c, CA_PROJECTION_Y, p->dtype, -1.0f, 1.0f, &state);
    ca_value_store(c->bytes[CA_PROJECTION_X] + CA_TRUST_GUARD, p->dtype,
                   ca_trust_position(&p->x, 1, 2, BAD_ROW, BAD_DEPTH), NAN);
    ca_value_store(c->bytes[CA_PROJECTION_W] + CA_TRUST_GUARD, p->dtype,
                   ca_trust_position(&p->w, 0, BAD_DEPTH, 1, BAD_COLUMN), INFINITY);
    if (!solve(c))
        return 0;
    set_bounds(c);
    return 1;
}

int ca_projection_case_make(struct ca_trust_case *c, clattn_context *ctx,
                            const clattn_problem *real, const struct ca_candidate *candidate)
{
    (void)ctx;
    (void)candidate;
    return make(c, real, 0);
}

static int is_in_pieces(const clattn_layout *layout)
{
    int found = 0;

    for (size_t along = 0; along < 4; along++)
        found |= ca_layout_in_pieces(layout, along, PIECE);
    return found;
}

int ca_trust_has_pieces(const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;

    return problem->operation == CLATTN_PROJECTION && is_in_pieces(&p->x) && is_in_pieces(&p->w) &&
           p->x_dim % PIECE == 0 && p->y_dim % PIECE == 0;
}

int ca_projection_case_make_in_pieces(struct ca_trust_case *c, const clattn_problem *real)
{
    return make(c, real, 1);
}

/* ---- an ordinary case ----------------------------------------------------------------------- */

int ca_projection_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx)
{
    (void)ctx;
    const clattn_projection_problem *p = &c->problem.projection;
    const size_t rows = p->batch * p->y_heads * p->rows;
    unsigned state = 20240229u;

    if (!allocate(c, ca_trust_spread(rows, p->x_heads * p->x_dim * p->y_dim)))
        return 0;
    ca_trust_fill_random(c, CA_PROJECTION_X, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_PROJECTION_W, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_PROJECTION_BIAS, p->bias_dtype, -1.0f, 1.0f, &state);
    if (p->accumulate)
        ca_trust_fill_random(c, CA_PROJECTION_Y, p->dtype, -1.0f, 1.0f, &state);
    return solve(c);
}
