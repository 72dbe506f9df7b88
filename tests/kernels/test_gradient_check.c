/* The check of gradients: it takes right ones for right, and notices each kind of mistake. */
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"

#include <clattn/gradient_check.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

TestSuite(gradient_check, .init = unoptimised, .timeout = 120);

struct text {
    char problem[192];
};

ParameterizedTestParameters(gradient_check, right) {
    static struct text texts[] = {
        {"bwd f32 b2 h4/2 q19 k23 d9/13 causal=br softcap=5"},
        {"bwd f32 h2 q13 k17 d8 bias=f32:qk alibi sinks dbias dslopes dsinks window=7,5 klen qlen"},
        {"bwd f32 b2 h2/1 q9 k11 d5 bias=f16:k dbias mask=bhqk dropout=0.25"},
        {"bwd f32 b2 h4/2 q9 k11 d5 bias=bf16:0.0.0.0 dbias q=bshd k=55.0.5.1 dv=sbhd"},
        {"bwd f16 h2 q18 d16 alibi dslopes causal=tl"},
        {"bwd f32 h2 q9 k18 d16 alibi symmetric dslopes diagonal=br"},
        {"bwd bf16 h2 q18 d16 bias=bf16:hq dbias sinks dsinks"},
        {"bwd f16 h2/1 q18 k11 d7 odtype=f32"},
        {"bwd f32 q1 k1 d1"},
    };

    enum { COUNT = sizeof texts / sizeof *texts };
    static struct text taken[COUNT];
    size_t numbers[COUNT];
    const size_t count = numbers_taken(COUNT, 4, numbers);

    for (size_t n = 0; n < count; n++)
        taken[n] = texts[numbers[n]];
    return cr_make_param_array(struct text, taken, count);
}

ParameterizedTest(struct text *t, gradient_check, right) {
    const clattn_problem p = fixture_problem(t->problem);
    struct fixture f;

    fixture_open(&f);
    for (unsigned seed = 0; seed < 2; seed++) {
        clattn_gradient_report report = {.struct_size = sizeof report};
        cr_assert(clattn_gradient_check(f.context, &p, NULL, seed, &report) == CLATTN_SUCCESS, "%s",
                  f.log.last);
        cr_expect(report.right, "'%s': %s(%zu, %zu, %zu, %zu) %g, %g: %g; %s(...) %g, %g: %g",
                  t->problem, report.analytic.tensor, report.analytic.index[0],
                  report.analytic.index[1], report.analytic.index[2], report.analytic.index[3],
                  report.analytic.value, report.analytic.expected, report.analytic.ratio,
                  report.difference.tensor, report.difference.value, report.difference.expected,
                  report.difference.ratio);
        /* Of f32 problems something is always rounded; that nothing differs would mean that
         * nothing was compared. */
        cr_expect(report.num_analytic >= 3 && report.num_differences >= 3);
        cr_expect(report.analytic.tensor != NULL && report.difference.tensor != NULL);
        cr_expect(strncmp(report.family, "backward_", 9) == 0);
    }
    fixture_close(&f);
}

Test(gradient_check, counts_every_element) {
    const clattn_problem p = fixture_problem("bwd f32 b2 h4/2 q3 k5 d6/7 bias=f32:hk dbias sinks "
                                             "alibi dsinks dslopes");
    clattn_gradient_report report = {.struct_size = sizeof report};
    struct fixture f;

    fixture_open(&f);
    cr_assert(clattn_gradient_check(f.context, &p, NULL, 1, &report) == CLATTN_SUCCESS);
    cr_expect(report.num_analytic ==
              2 * 4 * 3 * (6 + 7 + 1) + 2 * 2 * 5 * 6 + 2 * 2 * 5 * 7 + 4 * 5 + 4 + 4);
    cr_expect(report.num_differences == 48 + 48 + 48 + 4 * 5 + 4 + 4);
    fixture_close(&f);
}

Test(gradient_check, nothing_to_compare) {
    const clattn_problem p = fixture_problem("bwd f32 b0 q3 k5 d6");
    clattn_gradient_report report = {.struct_size = sizeof report};
    struct fixture f;

    fixture_open(&f);
    cr_assert(clattn_gradient_check(f.context, &p, NULL, 1, &report) == CLATTN_SUCCESS, "%s",
              f.log.last);
    cr_expect(report.right && report.num_analytic == 0 && report.num_differences == 0);
    cr_expect(report.analytic.tensor == NULL && report.difference.tensor == NULL);
    fixture_close(&f);
}

/* Gradients of nothing are zeros that are written. */
Test(gradient_check, empty_problems) {
    static const struct {
        const char *problem;
        size_t elements; /* of dbias, dslopes and dsinks */
    } cases[] = {
        {"bwd f32 b2 h2 q0 k50 d32 bias=f32:k dbias", 50},
        {"bwd f32 b0 h2 q3 k50 d4 bias=f32:k alibi sinks dbias dslopes dsinks", 54},
        {"bwd f32 b2 h2 q0 k200000 d4 bias=f32:k dbias", 200000},
        {"bwd f32 b2 h2 q3 k0 d4 bias=f32:hq dbias", 6},
    };
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_problem p = fixture_problem(cases[n].problem);
        clattn_gradient_report report = {.struct_size = sizeof report};
        cr_assert(clattn_gradient_check(f.context, &p, NULL, 1, &report) == CLATTN_SUCCESS, "%s",
                  f.log.last);
        cr_expect(report.right && report.num_analytic >= cases[n].elements, "'%s': %zu elements",
                  cases[n].problem, report.num_analytic);
    }
    fixture_close(&f);
}

Test(gradient_check, refusals) {
    const clattn_problem forward = fixture_problem("fwd f32 q3 d4");
    const clattn_problem backward = fixture_problem("bwd f32 q3 d4");
    const clattn_plan_options wrong = {.struct_size = sizeof wrong,
                                       .family = "fused_cpu UNIT=vector"};
    clattn_gradient_report report = {.struct_size = sizeof report}, short_one = {0};
    struct fixture f;

    fixture_open(&f);
    cr_expect(clattn_gradient_check(NULL, &backward, NULL, 1, &report) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_gradient_check(f.context, NULL, NULL, 1, &report) == CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(&f, "problem"));
    cr_expect(clattn_gradient_check(f.context, &backward, NULL, 1, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(&f, "report"));
    cr_expect(clattn_gradient_check(f.context, &backward, NULL, 1, &short_one) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(&f, "report"));
    cr_expect(clattn_gradient_check(f.context, &forward, NULL, 1, &report) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(&f, "CLATTN_BACKWARD"));
    cr_expect(clattn_gradient_check(f.context, &backward, &wrong, 1, &report) ==
              CLATTN_UNSUPPORTED);
    cr_expect(fixture_said(&f, "fused_cpu UNIT=vector"));
    cr_expect(!report.right && report.num_analytic == 0 && report.family[0] == '\0');
    fixture_close(&f);
}

/* Results that are not what the device computed. */
Test(gradient_check, notices_lies) {
    const clattn_problem p = fixture_problem("bwd f32 h2 q9 k11 d6");
    clattn_gradient_report report = {.struct_size = sizeof report};
    struct fixture f;

    fixture_open(&f);
    for (size_t read = 0; read < 5; read++) { /* o, lse, dq, dk, dv */
        faults_arm(FAULT_LIE, read, CL_SUCCESS);
        cr_assert(clattn_gradient_check(f.context, &p, NULL, 1, &report) == CLATTN_SUCCESS);
        cr_assert(faults_disarm() != NULL);
        cr_expect(!report.right && report.analytic.ratio > 1.0, "read %zu: %g", read,
                  report.analytic.ratio);
        cr_expect(report.difference.ratio <= 1.0);
    }
    cr_assert(clattn_gradient_check(f.context, &p, NULL, 1, &report) == CLATTN_SUCCESS);
    cr_expect(report.right);
    fixture_close(&f);
}

Test(gradient_check, without_memory) {
    const clattn_problem p = fixture_problem("bwd f32 q3 k5 d4");
    clattn_gradient_report report = {.struct_size = sizeof report};
    struct fixture f;
    size_t n = 0;

    fixture_open(&f);
    cr_assert(clattn_gradient_check(f.context, &p, NULL, 1, &report) == CLATTN_SUCCESS);
    const long before = faults_allocations_alive();
    for (; n < 1000; n++) {
        faults_arm(FAULT_MEMORY, n, CL_SUCCESS);
        const clattn_status status = clattn_gradient_check(f.context, &p, NULL, 1, &report);
        if (!faults_disarm())
            break;
        cr_expect(status == CLATTN_OUT_OF_MEMORY && !report.right, "allocation %zu: %s", n,
                  clattn_status_string(status));
        cr_assert(faults_allocations_alive() == before, "allocation %zu left something", n);
    }
    cr_assert(n > 20 && n < 1000);
    fixture_close(&f);
}
