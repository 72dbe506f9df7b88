/* SPDX-License-Identifier: Apache-2.0 */
/* The self-check of projections: right answers are trusted, and wrong ones are found. No device. */
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include "tests/support/judged_case.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(projection_trust, .timeout = 60);

static const char *const texts[] = {
    "proj f32 b2 h3/2 q9 d20/14 bias=f32",
    "proj f16 b2 h3/2 q9 d20/14 w=oi accumulate",
    "proj bf16 b2 q9 d20/14 x=bhds y=bhds bias=f16",
    "proj bf16 b2 h2/3 q9 d20/14 w=oi",
    "proj bf16 b2 h2/3 q9 d21/14",
    "proj f32 b2 h3/2 q9 d20/14 x=0.0.0.3 w=0.5.0.9 bias=bf16 accumulate",
};

/* An element of y, from 0 on, as it is counted in (batch, heads, rows, dim). */
static size_t place_of(const struct ca_trust_case *c, size_t n)
{
    const clattn_projection_problem *p = &c->problem.projection;
    const size_t *s = p->y.stride;

    return n / p->y_dim / p->rows / p->y_heads * s[0] + n / p->y_dim / p->rows % p->y_heads * s[1] +
           n / p->y_dim % p->rows * s[2] + n % p->y_dim * s[3];
}

static size_t count_of(const struct ca_trust_case *c)
{
    return c->problem.projection.batch * c->problem.projection.y_heads *
           c->problem.projection.rows * c->problem.projection.y_dim;
}

static unsigned char *y_of(const struct ca_trust_case *c)
{
    return c->bytes[CA_PROJECTION_Y] + CA_TRUST_GUARD;
}

/* An answer agrees with the judge, on values and within a factor on bounds. */
static void expect_answer(void *user, int id, const size_t at[4], const struct bounded *want,
                          size_t count)
{
    struct ca_trust_case *c = user;
    size_t n = 0;

    (void)id;
    while (n < c->num_answers && memcmp(c->answers[n].at, at, sizeof c->answers[n].at) != 0)
        n++;
    cr_assert(n < c->num_answers);
    for (size_t e = 0; e < count; e++) {
        const struct ca_bounded got = c->answers[n].want[e];
        cr_assert(fabs(got.value - want[e].value) <= 1e-12 * (1.0 + fabs(want[e].value)));
        cr_assert(got.bound <= 2.0 * want[e].bound && got.bound >= 0.2 * want[e].bound,
                  "judged with %g, should be %g", got.bound, want[e].bound);
    }
}

Test(projection_trust, answers) {
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct ca_trust_case c = judged_case(texts[t], 0);
        const clattn_projection_problem *p = &c.problem.projection;
        cr_assert(c.num_answers == p->batch * p->y_heads * p->rows);
        judged_results(&c, expect_answer, &c);
        judged_compute(&c);
        judged_right(&c, texts[t]);
        ca_trust_case_free(&c);
    }
}

/* The hostile case has a program's kind, and keeps all axes apart. */
Test(projection_trust, hostile_cases_are_of_the_same_kind) {
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        const clattn_problem parsed = fixture_problem(texts[t]), whole = ca_problem_normal(&parsed);
        const clattn_projection_problem p = whole.projection;
        struct ca_trust_case c = judged_case(texts[t], 1);
        const clattn_projection_problem normal = ca_problem_normal(&c.problem).projection;
        cr_expect(normal.batch > 1 && normal.y_heads > 1 && normal.x_heads > 1);
        cr_expect((normal.x.stride[3] == 1) == (p.x.stride[3] == 1));
        cr_expect((normal.x.stride[2] == 1) == (p.x.stride[3] != 1 && p.x.stride[2] == 1));
        cr_expect((normal.w.stride[3] == 1) == (p.w.stride[3] == 1));
        cr_expect((normal.w.stride[1] == 1) == (p.w.stride[3] != 1 && p.w.stride[1] == 1));
        cr_expect((normal.y.stride[3] == 1) == (p.y.stride[3] == 1));
        cr_expect(normal.bias == p.bias && normal.accumulate == p.accumulate);
        cr_expect(ca_projection_x_in_pairs(&normal) == ca_projection_x_in_pairs(&p), "%s",
                  texts[t]);
        ca_trust_case_free(&c);
    }
}

/* Problems in pieces of 16 bytes have a second case, in pieces as well, of the same kind. */
Test(projection_trust, cases_in_pieces) {
    static const struct {
        const char *problem;
        int has;
    } cases[] = {{"proj f16 q9 d24/16", 1},
                 {"proj bf16 b2 h3/2 q9 d64/16 w=oi bias=f32", 1},
                 {"proj f32 b2 h3/2 q9 d64/16 accumulate", 1},
                 {"proj f16 q9 d20/16", 0},
                 {"proj f16 b2 h3/2 q9 d64/16 x=0.0.0.2", 0},
                 {"proj f16 b2 h2 q9 d64/16 x=1216.608.65.1", 0},
                 {"fwd f16 q9 k8 d64", 0}};

    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        const clattn_problem parsed = fixture_problem(cases[t].problem);
        const clattn_problem p = ca_problem_normal(&parsed);
        struct ca_trust_case c;
        cr_assert(ca_trust_has_pieces(&p) == cases[t].has, "%s", cases[t].problem);
        if (!cases[t].has)
            continue;
        cr_assert(ca_trust_case_make_in_pieces(&c, &p));
        const clattn_problem normal = ca_problem_normal(&c.problem);
        cr_expect(ca_trust_has_pieces(&normal), "%s", cases[t].problem);
        cr_expect((normal.projection.w.stride[3] == 1) == (p.projection.w.stride[3] == 1));
        cr_expect(normal.projection.bias == p.projection.bias &&
                  normal.projection.accumulate == p.projection.accumulate);
        judged_compute(&c);
        judged_right(&c, cases[t].problem);
        ca_trust_case_free(&c);
    }
}

/* Everything that a kernel may do wrong is seen. */
Test(projection_trust, what_is_found) {
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct ca_trust_case c = judged_case(texts[t], 1);
        const clattn_dtype dtype = c.problem.projection.dtype;
        const size_t bytes = value_bytes(dtype), some = place_of(&c, 4321), all = count_of(&c);
        size_t poisoned = 0, gap = 0;
        judged_compute(&c);
        judged_right(&c, texts[t]);

        const double value = value_get(dtype, y_of(&c), some);
        value_set(dtype, y_of(&c), some, value * 1.02 + 0.02);
        judged_wrong(&c, texts[t], "should be");
        value_set(dtype, y_of(&c), some, NAN);
        judged_wrong(&c, texts[t], "is NaN or was not written");
        value_set(dtype, y_of(&c), some, value);
        judged_right(&c, texts[t]);

        for (size_t n = 0; n < all; n++) /* a NaN that got lost */
            if (isnan(value_get(dtype, y_of(&c), place_of(&c, n))))
                poisoned = place_of(&c, n);
        cr_assert(poisoned > 0);
        value_set(dtype, y_of(&c), poisoned, 1.0);
        judged_wrong(&c, texts[t], "should be");
        value_set(dtype, y_of(&c), poisoned, NAN);

        while (gap < c.sizes[CA_PROJECTION_Y] &&
               memcmp(y_of(&c) + gap, "\xff\xff\xff\xff", bytes) != 0)
            gap += bytes;
        cr_assert(gap < c.sizes[CA_PROJECTION_Y] - 2 * CA_TRUST_GUARD);
        y_of(&c)[gap] = 0;
        judged_wrong(&c, texts[t], "outside");
        y_of(&c)[gap] = CA_TRUST_FILL;
        y_of(&c)[-1] = 0;
        judged_wrong(&c, texts[t], "outside");
        y_of(&c)[-1] = CA_TRUST_FILL;
        judged_right(&c, texts[t]);
        ca_trust_case_free(&c);
    }
}

/* In each hostile case some results are NaN, by x and by w, and most are not. */
Test(projection_trust, poison_stays_where_it_belongs) {
    struct ca_trust_case c = judged_case(texts[0], 1);
    size_t bad = 0;

    judged_compute(&c);
    for (size_t n = 0; n < count_of(&c); n++)
        bad += !isfinite(value_get(c.problem.projection.dtype, y_of(&c), place_of(&c, n)));
    cr_expect(bad == c.problem.projection.y_heads * c.problem.projection.y_dim +
                         c.problem.projection.batch * c.problem.projection.rows - 1);
    ca_trust_case_free(&c);
}
