/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of projections. An answer is a sum of x_heads * x_dim products, the bias and what y held
 * before; what it may be off by, by the rules of answer.c. */
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

    for (size_t n = 0; n < c->num_rows; n++)
        for (size_t h = 0; h < p->x_heads; h++, x += p->x_dim)
            ca_values_load(ca_trust_elements(c, CA_PROJECTION_X), p->dtype,
                           ca_trust_position(&p->x, c->rows[n] / p->rows / p->y_heads, h,
                                             c->rows[n] % p->rows, 0),
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
    for (size_t n = 0; n < c->num_rows; n++) {
        const double factor = x[n * terms + term];
        const double *values = w + c->rows[n] / p->rows % p->y_heads * p->y_dim;
        for (size_t e = 0; e < p->y_dim; e++) {
            const double product = factor * values[e];
            c->o[n * p->y_dim + e].value += product;
            c->o[n * p->y_dim + e].bound += fabs(product);
        }
    }
}

/* Bias, what was there before, and the magnitudes' sum turned into a bound. */
static void finish(const struct ca_trust_case *c, size_t row, struct ca_bounded *o)
{
    const clattn_projection_problem *p = &c->problem.projection;
    const size_t index = c->rows[row], g = index / p->rows % p->y_heads;
    const double rounding = ca_trust_length_error(p->x_heads * p->x_dim + 2);

    for (size_t e = 0; e < p->y_dim; e++) {
        const double bias = p->bias ? ca_value_load(ca_trust_elements(c, CA_PROJECTION_BIAS),
                                                    p->bias_dtype, g * p->y_dim + e)
                                    : 0.0;
        const double before =
            p->accumulate ? ca_value_load(ca_trust_elements(c, CA_PROJECTION_Y), p->dtype,
                                          ca_trust_position(&p->y, index / p->rows / p->y_heads, g,
                                                            index % p->rows, e))
                          : 0.0;
        o[e].value += bias + before;
        o[e].bound = rounding * (o[e].bound + fabs(bias) + fabs(before)) + FLT_MIN;
        o[e].bound += ca_value_rounding(p->dtype, fabs(o[e].value) + o[e].bound);
    }
}

static int solve(struct ca_trust_case *c)
{
    const clattn_projection_problem *p = &c->problem.projection;
    double *x = malloc(c->num_rows * p->x_heads * p->x_dim * sizeof *x);
    double *w = malloc(p->y_heads * p->y_dim * sizeof *w);
    const int complete = x && w;

    if (complete) {
        load_rows(c, x);
        for (size_t h = 0; h < p->x_heads; h++)
            for (size_t d = 0; d < p->x_dim; d++)
                add_products(c, h, d, x, w);
        for (size_t n = 0; n < c->num_rows; n++)
            finish(c, n, c->o + n * p->y_dim);
    }
    free(x);
    free(w);
    return complete;
}

static int solve_or_free(struct ca_trust_case *c)
{
    if (ca_trust_keep_before(c) && solve(c))
        return 1;
    ca_trust_case_free(c);
    return 0;
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

/* With gaps, and the real one's contiguous axis: the last, or another one, or none. */
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

/* One tolerance for all: the sizes and magnitudes are known. */
static void set_bounds(struct ca_trust_case *c)
{
    const double tolerance = c->problem.projection.dtype == CLATTN_F32   ? 1e-4
                             : c->problem.projection.dtype == CLATTN_F16 ? 2e-3
                                                                         : 1e-2;

    for (size_t n = 0; n < c->num_rows * c->problem.projection.y_dim; n++)
        c->o[n].bound = tolerance * fmax(1.0, fabs(c->o[n].value));
}

static int make(struct ca_trust_case *c, const clattn_problem *real, int in_pieces)
{
    unsigned state = 20240229u;

    memset(c, 0, sizeof *c);
    c->problem = shrink(real, in_pieces);
    c->hostile = 1;
    const clattn_projection_problem *p = &c->problem.projection;
    if (!ca_trust_allocate(c, (size_t)BATCH * HEADS_Y * ROWS, 0, 0)) {
        ca_trust_case_free(c);
        return 0;
    }
    for (size_t n = 0; n < c->num_rows; n++)
        c->rows[n] = n;
    ca_trust_fill_elements(c, CA_PROJECTION_X, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_elements(c, CA_PROJECTION_W, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_elements(c, CA_PROJECTION_BIAS, p->bias_dtype, -1.0f, 1.0f, &state);
    if (p->accumulate)
        ca_trust_fill_elements(c, CA_PROJECTION_Y, p->dtype, -1.0f, 1.0f, &state);
    ca_value_store(c->bytes[CA_PROJECTION_X] + CA_TRUST_GUARD, p->dtype,
                   ca_trust_position(&p->x, 1, 2, BAD_ROW, BAD_DEPTH), NAN);
    ca_value_store(c->bytes[CA_PROJECTION_W] + CA_TRUST_GUARD, p->dtype,
                   ca_trust_position(&p->w, 0, BAD_DEPTH, 1, BAD_COLUMN), INFINITY);
    if (!solve_or_free(c))
        return 0;
    set_bounds(c);
    return 1;
}

int ca_projection_case_make(struct ca_trust_case *c, const clattn_problem *real,
                            const struct ca_candidate *candidate)
{
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

int ca_trust_case_make_in_pieces(struct ca_trust_case *c, const clattn_problem *p)
{
    return make(c, p, 1);
}

/* ---- an ordinary case ----------------------------------------------------------------------- */

int ca_projection_case_make_ordinary(struct ca_trust_case *c, const clattn_problem *real)
{
    const clattn_projection_problem *p = &real->projection;
    const size_t rows = p->batch * p->y_heads * p->rows;
    unsigned state = 20240229u;

    memset(c, 0, sizeof *c);
    c->problem = *real;
    if (!ca_trust_allocate(c, ca_trust_to_judge(rows, p->x_heads * p->x_dim * p->y_dim), 0, 0)) {
        ca_trust_case_free(c);
        return 0;
    }
    ca_trust_spread(c->rows, c->num_rows, rows);
    ca_trust_fill_random(c, CA_PROJECTION_X, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_PROJECTION_W, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_PROJECTION_BIAS, p->bias_dtype, -1.0f, 1.0f, &state);
    if (p->accumulate)
        ca_trust_fill_random(c, CA_PROJECTION_Y, p->dtype, -1.0f, 1.0f, &state);
    return solve_or_free(c);
}
