/* SPDX-License-Identifier: Apache-2.0 */
/* A value half-way between two numbers of bf16 rounds to the even one, in every tensor that a
 * family stores. The reference's bounds allow both. All sums here are exact in f32. */
#include "tests/support/families.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(rounding, .init = unoptimised, .timeout = 300);

#define HALF_STEP 0x1p-8 /* of 1: bf16 has eight bits */

/* The n-th of some numbers next to which a half step is a tie: odd and even ones, of both signs. */
static double base(const size_t n)
{
    static const double numbers[] = {1.0, 1.0 + 2 * HALF_STEP, -1.0 - 2 * HALF_STEP, -1.0,
                                     2.0 - 2 * HALF_STEP};

    return numbers[n % 5];
}

/* Half a step of bf16, with the sign of the base, so that their sum lies halfway between two numbers. */
static double tie_of(const size_t n)
{
    return copysign(HALF_STEP, base(n));
}

static double stored(const double value)
{
    unsigned short bits;

    value_set(CLATTN_BF16, &bits, 0, value);
    return value_get(CLATTN_BF16, &bits, 0);
}

static void expect(const double got, const double sum, const char *what, const size_t n)
{
    cr_assert(stored(sum) != sum, "%a is no tie", sum);
    cr_assert(got == stored(sum), "%s %zu: %a becomes %a, not %a", what, n, sum, got, stored(sum));
}

/* ---- attention -------------------------------------------------------------------------------- */

static size_t families[MOST_FAMILIES];

static struct criterion_test_params families_of(const clattn_operation operation)
{
    return cr_make_param_array(size_t, families,
                               families_taken(operation, NULL, (uint64_t)operation, 4, families));
}

ParameterizedTestParameters(rounding, outputs) {
    return families_of(CLATTN_FORWARD);
}

/* The mean of two values: both scores are 0. No vector divides the dim: both ways to store. */
ParameterizedTest(size_t *family, rounding, outputs) {
    struct trial t = {.problem = fixture_problem("fwd bf16 h2 q3 k2 d37"),
                      .family = clattn_family_name(CLATTN_FORWARD, *family),
                      .seed = 1};
    struct fixture f;

    fixture_open(&f);
    trial_fill(&t);
    trial_set_ordinary(&t, TENSOR_K, 2);
    for (size_t n = 0; n < 2 * 37; n++) {
        for (size_t i = 0; i < 3; i++)
            trial_set(&t, TENSOR_Q, 0, n / 37, i, n % 37, 0.0);
        trial_set(&t, TENSOR_V, 0, n / 37, 0, n % 37, base(n));
        trial_set(&t, TENSOR_V, 0, n / 37, 1, n % 37, base(n) + 2 * tie_of(n));
    }
    trial_run(&f, &t);
    for (size_t n = 0; n < 2 * 37; n++)
        for (size_t i = 0; i < 3; i++)
            expect(trial_value(&t, TENSOR_O, 0, n / 37, i, n % 37), base(n) + tie_of(n), "o", n);
    trial_free(&t);
    fixture_close(&f);
}

/* Data for gradients whose sums lie halfway between two numbers. All scores and lse are 0, so weights are 1. o is 0 and do . v
 * is do's first element, so the gradient of a score is 1 for the first query, and half a step for the second. */
static void fill_gradients(struct trial *t, const enum tensor_id zero)
{
    trial_fill(t);
    for (size_t n = 0; n < 2 * 2 * 37; n++) {
        const size_t h = n / 37 / 2, row = n / 37 % 2, d = n % 37, at = h * 37 + d;
        /* The first row a base, the second what makes it a tie. */
        const double x = row ? tie_of(at) : base(at);
        trial_set(t, TENSOR_Q, 0, h, row, d,
                  zero == TENSOR_Q ? 0.0
                  : row            ? tie_of(at) / HALF_STEP
                                   : base(at));
        trial_set(t, TENSOR_K, 0, h, row, d, zero == TENSOR_K ? 0.0 : x);
        trial_set(t, TENSOR_V, 0, h, row, d, d == 0);
        trial_set(t, TENSOR_O, 0, h, row, d, 0.0);
        trial_set(t, TENSOR_DO, 0, h, row, d, d > 0 ? x : row ? HALF_STEP : 1.0);
        trial_set(t, TENSOR_LSE, 0, h, 0, row, 0.0);
    }
    for (size_t n = 0; n < 8; n++)
        trial_set(t, TENSOR_BIAS, 0, n / 4, n / 2 % 2, n % 2, 0.0);
}

ParameterizedTestParameters(rounding, gradients) {
    return families_of(CLATTN_BACKWARD);
}

ParameterizedTest(size_t *family, rounding, gradients) {
    struct fixture f;

    fixture_open(&f);
    for (int zero = TENSOR_Q; zero <= TENSOR_K; zero++) {
        struct trial t = {.problem =
                              fixture_problem("bwd bf16 h2 q2 k2 d37 scale=1 bias=bf16:hk dbias"),
                          .family = clattn_family_name(CLATTN_BACKWARD, *family),
                          .seed = 1};
        fill_gradients(&t, (enum tensor_id)zero);
        trial_run(&f, &t);
        for (size_t n = 0; n < 2 * 37; n++) {
            const size_t h = n / 37, d = n % 37;
            const double tie = base(n) + tie_of(n);
            if (zero == TENSOR_Q)
                expect(trial_value(&t, TENSOR_DQ, 0, h, 0, d), tie, "dq", n);
            else
                expect(trial_value(&t, TENSOR_DK, 0, h, d % 2, d), tie, "dk", n);
            expect(trial_value(&t, TENSOR_DV, 0, h, d % 2, d), d > 0 ? tie : 1.0 + HALF_STEP, "dv",
                   n);
        }
        for (size_t n = 0; n < 4; n++)
            expect(trial_value(&t, TENSOR_DBIAS, 0, n / 2, 0, n % 2), 1.0 + HALF_STEP, "dbias", n);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* ---- projections ------------------------------------------------------------------------------ */

ParameterizedTestParameters(rounding, projections) {
    return families_of(CLATTN_PROJECTION);
}

/* A row of ones times a column of a base and a half step. */
ParameterizedTest(size_t *family, rounding, projections) {
    struct trial t = {.problem = fixture_problem("proj bf16 h2/1 q5 d2/37"),
                      .family = clattn_family_name(CLATTN_PROJECTION, *family),
                      .seed = 1};
    struct fixture f;

    fixture_open(&f);
    if (!trial_is_supported(&f, &t))
        cr_skip_test("the family takes such dims of f32 alone");
    trial_fill(&t);
    for (size_t n = 0; n < 5 * 2; n++)
        trial_set_nth(&t, PROJECTION_X, n, 1.0);
    for (size_t n = 0; n < 2 * 37; n++) {
        trial_set_nth(&t, PROJECTION_W, n, base(n));
        trial_set_nth(&t, PROJECTION_W, 2 * 37 + n, tie_of(n));
    }
    trial_run(&f, &t);
    for (size_t n = 0; n < 2 * 5 * 37; n++) {
        const size_t column = n / 37 / 5 * 37 + n % 37;
        expect(trial_value_nth(&t, PROJECTION_Y, n), base(column) + tie_of(column), "y", n);
    }
    trial_free(&t);
    fixture_close(&f);
}
