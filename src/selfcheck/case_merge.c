/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of merges. An answer is a mean of the states' rows, weighted by exp(lse); its error is a
 * few roundings of their magnitudes. */
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- answers -------------------------------------------------------------------------------- */

/* The roundings of a difference of two lse, an exponential, a quotient and a sum. */
static const double tolerance = 64 * CA_TRUST_ROUNDOFF;

/* State s of a row; the last is what the outputs held before. */
static double lse_of(const struct ca_trust_case *c, size_t s, size_t row)
{
    const clattn_merge_problem *p = &c->problem.merge;
    const size_t rows = p->batch * p->heads * p->seq_q;

    return s < p->states
               ? ca_value_load(ca_trust_elements(c, CA_MERGE_PARTS_LSE), CLATTN_F32, s * rows + row)
               : ca_value_load(ca_trust_elements(c, CA_MERGE_LSE), CLATTN_F32, row);
}

static double value_of(const struct ca_trust_case *c, size_t s, size_t row, size_t d)
{
    const clattn_merge_problem *p = &c->problem.merge;
    const size_t i = row % p->seq_q, h = row / p->seq_q % p->heads, b = row / p->seq_q / p->heads;

    if (s == p->states)
        return ca_value_load(ca_trust_elements(c, CA_MERGE_O), p->dtype,
                             ca_trust_position(&p->o, b, h, i, d));
    return ca_value_load(ca_trust_elements(c, CA_MERGE_PARTS), p->dtype,
                         ca_trust_position(&p->parts, s * p->batch + b, h, i, d));
}

/* The relative weight of a state beside the largest, which is not -infinity. */
static double weight(double lse, double most)
{
    return lse == most ? 1.0 : exp(lse - most);
}

static double larger(double x, double most)
{
    return x > most || isnan(x) ? x : most;
}

static void solve_row(const struct ca_trust_case *c, size_t row, struct ca_bounded *o,
                      struct ca_bounded *lse)
{
    const clattn_merge_problem *p = &c->problem.merge;
    const size_t states = p->states + (p->accumulate != 0);
    double most = -INFINITY, sum = 0.0;

    for (size_t s = 0; s < states; s++)
        most = larger(lse_of(c, s, row), most);
    if (p->sinks && most != -INFINITY) {
        const double sink = ca_value_load(ca_trust_elements(c, CA_MERGE_SINKS), CLATTN_F32,
                                          row / p->seq_q % p->heads);
        most = larger(sink, most);
        sum = weight(sink, most);
    }
    for (size_t s = 0; s < states; s++)
        sum += most == -INFINITY ? 0.0 : weight(lse_of(c, s, row), most);
    const double all = sum > 0.0 || isnan(sum) ? most + log(sum) : -INFINITY;
    *lse = (struct ca_bounded){all, tolerance * fmax(1.0, fabs(all))};
    for (size_t d = 0; d < p->dim; d++) {
        double value = 0.0, magnitude = 0.0;
        for (size_t s = 0; s < states; s++) {
            const double x = lse_of(c, s, row);
            const double part =
                x == -INFINITY ? 0.0 : weight(x, most) / sum * value_of(c, s, row, d);
            value += part;
            magnitude += fabs(part);
        }
        o[d] = (struct ca_bounded){value, tolerance * magnitude + FLT_MIN};
        o[d].bound += ca_value_rounding(p->dtype, fabs(value) + o[d].bound);
    }
}

static int allocate(struct ca_trust_case *c, const struct ca_sample *rows)
{
    return ca_trust_allocate(c, 2 * rows->count, rows->count * (c->problem.merge.dim + 1));
}

/* Rows counted (b, h, i). */
static int solve(struct ca_trust_case *c, const struct ca_sample *rows)
{
    const clattn_merge_problem *p = &c->problem.merge;

    if (!ca_trust_keep_before(c))
        return 0;
    for (size_t n = 0; n < rows->count; n++) {
        const size_t row = ca_trust_place(rows, n), i = row % p->seq_q;
        const size_t b = row / p->seq_q / p->heads, h = row / p->seq_q % p->heads;
        struct ca_bounded *o = ca_trust_answer(c, CA_MERGE_O, b, h, i, p->dim);
        solve_row(c, row, o, ca_trust_answer_lse(c, CA_MERGE_LSE, b, h, i, p->heads, p->seq_q));
    }
    return 1;
}

/* ---- the hostile case ----------------------------------------------------------------------- */

/* The case is ragged, and strides keep its axes apart; a row is longer than what is read at a time.
 * */
enum { BATCH = 2, HEADS = 3, ROWS = 19, STATES = 5, DIM = 533 };

static clattn_problem shrink(const clattn_problem *real)
{
    clattn_problem made = *real;
    clattn_merge_problem *p = &made.merge;

    p->batch = BATCH;
    p->heads = HEADS;
    p->seq_q = ROWS;
    p->states = STATES;
    p->dim = DIM;
    p->parts = ca_trust_keep_unit(&real->merge.parts, STATES * BATCH, HEADS, ROWS, DIM);
    p->o = ca_trust_keep_unit(&real->merge.o, BATCH, HEADS, ROWS, DIM);
    return made;
}

/* The lse values of states by row: no state sees a key, one does, all do and are far apart, one is
 * a NaN or infinite. */
static float hostile_lse(size_t s, size_t row, float usual)
{
    switch (row % 9) {
    case 1:
        return -INFINITY;
    case 2:
        return s == row / 9 % STATES ? usual : -INFINITY;
    case 4:
        return usual * 300.0f;
    case 5:
        return s == 2 && row > ROWS ? NAN : usual;
    case 7:
        return s == 3 && row > ROWS ? INFINITY : usual;
    default:
        return s == row % STATES ? -INFINITY : usual;
    }
}

/* The rows of states that see nothing are NaN. */
static void spoil(struct ca_trust_case *c, size_t s, size_t row)
{
    const clattn_merge_problem *p = &c->problem.merge;
    const size_t i = row % p->seq_q, h = row / p->seq_q % p->heads, b = row / p->seq_q / p->heads;
    const int before = s == p->states;
    const clattn_layout *layout = before ? &p->o : &p->parts;
    const size_t first = ca_trust_position(layout, before ? b : s * p->batch + b, h, i, 0);

    for (size_t d = 0; d < p->dim; d++)
        ca_value_store(c->bytes[before ? CA_MERGE_O : CA_MERGE_PARTS] + CA_TRUST_GUARD, p->dtype,
                       first + d * layout->stride[3], NAN);
}

int ca_merge_case_make(struct ca_trust_case *c, clattn_context *ctx, const clattn_problem *real,
                       const struct ca_candidate *candidate)
{
    const size_t rows = (size_t)BATCH * HEADS * ROWS;
    const struct ca_sample all = ca_trust_each(rows);
    unsigned state = 20240229u;

    (void)ctx;
    (void)candidate;
    c->problem = shrink(real);
    const clattn_merge_problem *p = &c->problem.merge;
    if (!allocate(c, &all))
        return 0;
    ca_trust_fill_elements(c, CA_MERGE_PARTS, p->dtype, -1.0f, 1.0f, &state);
    /* One sink has a small weight, one a large weight, and one has none. */
    for (size_t h = 0; p->sinks && h < HEADS; h++)
        ca_value_store(c->bytes[CA_MERGE_SINKS] + CA_TRUST_GUARD, CLATTN_F32, h,
                       h == 2   ? -INFINITY
                       : h == 1 ? 3.0f
                                : -2.0f);
    if (p->accumulate)
        ca_trust_fill_elements(c, CA_MERGE_O, p->dtype, -1.0f, 1.0f, &state);
    for (size_t n = 0; n < rows * (STATES + (p->accumulate != 0)); n++) {
        const size_t s = n / rows, row = n % rows;
        const float lse = hostile_lse(s, row, 4.0f * ca_value_next(&state));
        ca_value_store(c->bytes[s < STATES ? CA_MERGE_PARTS_LSE : CA_MERGE_LSE] + CA_TRUST_GUARD,
                       CLATTN_F32, s < STATES ? n : row, lse);
        if (lse == -INFINITY)
            spoil(c, s, row);
    }
    return solve(c, &all);
}

/* ---- an ordinary case ----------------------------------------------------------------------- */

int ca_merge_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx)
{
    (void)ctx;
    const clattn_merge_problem *p = &c->problem.merge;
    const struct ca_sample rows =
        ca_trust_spread(p->batch * p->heads * p->seq_q, p->states * p->dim);
    unsigned state = 20240229u;

    if (!allocate(c, &rows))
        return 0;
    ca_trust_fill_random(c, CA_MERGE_PARTS, p->dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_MERGE_PARTS_LSE, CLATTN_F32, -4.0f, 4.0f, &state);
    ca_trust_fill_random(c, CA_MERGE_SINKS, CLATTN_F32, -4.0f, 4.0f, &state);
    if (p->accumulate) {
        ca_trust_fill_random(c, CA_MERGE_O, p->dtype, -1.0f, 1.0f, &state);
        ca_trust_fill_random(c, CA_MERGE_LSE, CLATTN_F32, -4.0f, 4.0f, &state);
    }
    return solve(c, &rows);
}
