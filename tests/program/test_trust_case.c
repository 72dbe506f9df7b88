/* SPDX-License-Identifier: Apache-2.0 */
/* The self-check of attention: right answers are trusted, and wrong ones are found. No device. */
#include "bench/judge/judge.h"
#include "problem/problem.h"
#include "selfcheck/case.h"
#include "selfcheck/values.h"
#include "tests/support/fixture.h"
#include "tests/support/judged_case.h"
#include "tests/support/storage.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(trust_case, .timeout = 60);

/* ---- answers: the tests' own reference agrees ----------------------------------------------- */

/* No pointers: it crosses processes. */
struct text {
    char text[160];
};

ParameterizedTestParameters(trust_case, answers) {
    static struct text texts[] = {
        {"fwd f32 q5 k9 d8"},
        {"fwd f16 b2 h4/2 q7 k33 d12/20 causal=br lse"},
        {"fwd bf16 h3 q9 k17 d6 causal=tl window=4,* alibi sinks lse"},
        {"fwd f32 b2 h2 q12 k40 d16 softcap=2.5 bias=f16:bhqk mask=qk qlen klen causal=br lse"},
        {"fwd f32 b2 h2 q12 k40 d16 scale=0.7 bias=bf16:hqk mask=bk diagonal=3 window=6,9"},
        {"fwd f32 h2 q6 k20 d16 scores=raw causal=tl lse"},
        {"fwd f32 h2 q6 k20 d16 softcap=1.5 scores=softcap mask=bhqk"},
        {"fwd f16 h2 q6 k20 d16 scores=bias bias=f32:bhqk causal=tl"},
        {"fwd f32 b3 h2 q6 k20 d16 scores=weights mask=bhqk klen alibi symmetric sinks"},
        {"fwd f32 b2 h2 q6 k20 d16 q=bshd k=sbhd v=bshd o=bshd klen"},
        {"fwd f32 q4 k0 d8 lse"},
        {"fwd f16 b2 h4/2 q6 k20 d64/32 kcache=q8_0 vcache=q4_0 causal=br lse"},
        {"fwd f32 h2 q6 k20 d32/96 k=sbhd v=bshd kcache=q4_0 vcache=q8_0 klen"},
        {"fwd f32 b2 h4/2 q6 k20 d16 kcache=f16 vcache=f16 bias=f16:qk causal=br lse"},
        {"fwd f16 h2 q6 k20 d20/9 v=bshd o=bshd kcache=bf16 vcache=f32 odtype=f32 klen"},
        {"fwd f32 b3 h4/2 q5 k20 d16 totalq=14 totalkv=50 causal=br lse"},
        {"fwd f32 b3 h4/2 q5 k20 d16 totalq=14 totalkv=50 causal=br lse keysums"},
        {"fwd f16 b2 h4/2 q7 k33 d12/20 causal=br klen sinks mask=qk lse keysums scores=mean"},
        {"fwd f32 b2 h4/2 q5 k37 d32 page=8 pages=11 causal=br klen sinks lse"},
        {"fwd f32 b2 h2/1 q3 k70 d64 kcache=q8_0 vcache=q4_0 page=16 pages=7 klen"},
        {"fwd f32 b2 h2 q12 k40 d16 blocks=3x7:20 mask=qk lse"},
        {"fwd f32 b2 h4/1 q3 k100 d32 page=8 pages=20 blocks=2x20:12 mask=qk klen lse"},
        {"fwd f32 h2 q6 k20 d32/64 kcache=q5_1 vcache=iq4_nl lse"},
        {"fwd f16 h2 q6 k20 d32 kcache=q4_1 vcache=q5_0 klen"},
        {"fwd bf16 b2 h4/2 q6 k20 d32 kcache=e4m3 vcache=e5m2 kscales=h vscales=bhk klen lse"},
        {"fwd f32 b2 h4/2 q5 k33 d20/12 causal=br lse precision=int8"},
        {"fwd f32 b3 h2 q5 k20 d16 totalq=14 totalkv=50 bias=f32:hqk lse precision=int8"},
        {"fwd f16 b2 h2/1 q4 k40 d32 page=8 pages=11 klen kcache=int8 kscales=bhk precision=int8"},
    };
    return cr_make_param_array(struct text, texts, sizeof texts / sizeof *texts);
}

static void expect_same(const struct ca_bounded *got, const struct bounded *want, const char *name,
                        size_t index)
{
    if (isnan(want->value) || isinf(want->value)) {
        cr_assert(got->value == want->value || (isnan(got->value) && isnan(want->value)),
                  "%s %zu: %g, should be %g", name, index, got->value, want->value);
        return;
    }
    cr_assert(fabs(got->value - want->value) <= 1e-11 * (1.0 + fabs(want->value)),
              "%s %zu: %.17g, should be %.17g", name, index, got->value, want->value);
    /* Two derivations of one thing. */
    cr_assert(got->bound <= 2.0 * want->bound + 4.0 * (double)FLT_MIN,
              "%s %zu is judged with %g, should be %g", name, index, got->bound, want->bound);
    cr_assert(got->bound >= 0.2 * want->bound, "%s %zu is judged with %g, should be %g", name,
              index, got->bound, want->bound);
}

/* All that the reference says. */
struct wanted {
    struct tensor_shape shape[NUM_TENSORS];
    struct bounded *at[NUM_TENSORS];
};

static void want(void *user, const int id, const size_t at[4], const struct bounded *values,
                 const size_t count)
{
    const struct wanted *wanted = user;

    memcpy(wanted->at[id] + tensor_packed(&wanted->shape[id], at[0], at[1], at[2], at[3]), values,
           count * sizeof *values);
}

static struct wanted wanted_of(const struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    const int backward = p->operation == CLATTN_BACKWARD;
    struct tensor_view view = {.dropout_seed = CA_TRUST_SEED, .dropout_offset = CA_TRUST_STREAM};
    struct wanted wanted;

    for (unsigned id = 0; id < NUM_TENSORS; id++) { /* the same order of tensors */
        wanted.shape[id] = tensor_shape_of(p, (enum tensor_id)id);
        wanted.at[id] = calloc(tensor_count(&wanted.shape[id]) * wanted.shape[id].written + 1,
                               sizeof *wanted.at[id]);
        cr_assert(wanted.at[id] != NULL);
        view.at[id] = c->bytes[id] ? c->bytes[id] + ca_trust_guard(p, id) : NULL;
    }
    cr_assert(judge_results(p, &view, backward ? PRECISION_SINGLE : PRECISION_WORST, INFINITY, want,
                            &wanted));
    return wanted;
}

/* Zeros of f16 are judged with half of the smallest number. Errors of a gradient's sums are added up here, their
 * squares by the reference. */
static void expect_answer(const struct ca_trust_case *c, const struct ca_answer *answer,
                          const struct wanted *wanted)
{
    const struct tensor_shape *shape = &wanted->shape[answer->argument];
    const int of_heads = answer->argument == CA_DSLOPES || answer->argument == CA_DSINKS;
    const size_t first = answer->argument == CA_LSE || answer->argument == CA_KEY_SUMS
                             ? answer->first
                             : tensor_packed(shape, answer->at[0], answer->at[1], answer->at[2], 0);

    for (size_t d = 0; d < answer->count; d++) {
        struct bounded expected = wanted->at[answer->argument][first + d];
        const double bound = answer->want[d].bound;
        if (c->problem.operation == CLATTN_BACKWARD) {
            expected.bound = fmax(expected.bound, shape->dtype == CLATTN_F16 ? 0x1p-25 : 0.0);
            if (bound > expected.bound && bound < (of_heads ? 64.0 : 4.0) * expected.bound)
                expected.bound = bound;
        }
        expect_same(&answer->want[d], &expected, shape->name, first + d);
    }
}

static void expect_answers(const struct ca_trust_case *c)
{
    struct wanted wanted = wanted_of(c);

    cr_assert(c->num_answers > 0);
    for (size_t n = 0; n < c->num_answers; n++)
        expect_answer(c, &c->answers[n], &wanted);
    for (int id = 0; id < NUM_TENSORS; id++)
        free(wanted.at[id]);
}

/* Returns how many answers there are of a result. */
static size_t answers_of(const struct ca_trust_case *c, enum ca_argument argument)
{
    size_t count = 0;

    for (size_t n = 0; n < c->num_answers; n++)
        count += c->answers[n].argument == argument;
    return count;
}

ParameterizedTest(struct text *t, trust_case, answers) {
    struct ca_trust_case c = judged_case(t->text, 0);
    const clattn_problem *p = &c.problem;
    const size_t rows = p->batch * p->heads * p->seq_q;

    cr_assert(p->total_q || answers_of(&c, CA_O) == (rows < 64 ? rows : 64));
    expect_answers(&c);
    ca_trust_case_free(&c);
}

/* Sums over all rows are in the hostile case alone. */
Test(trust_case, answers_of_gradients) {
    static const char *const texts[] = {
        "bwd f32 b2 h2 q5 k9 d8/12 diagonal=br alibi symmetric bias=f32:bhqk dbias dslopes",
        "bwd f16 b2 h4/2 q7 k12 d16 softcap=2 mask=bk klen qlen strict",
        "bwd bf16 h3 q9 k17 d6 window=4,* sinks dropout=0.25 dsinks",
        "bwd f32 h2 q5 k9 d8 causal=br alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q12 k40 d16 blocks=3x7:20 mask=qk",
    };

    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        for (int hostile = 0; hostile < 2; hostile++) {
            struct ca_trust_case c = judged_case(texts[t], hostile);
            const clattn_problem *p = &c.problem;
            cr_expect(answers_of(&c, CA_DSINKS) == (hostile && p->dsinks));
            cr_expect(answers_of(&c, CA_DSLOPES) == (hostile && p->dslopes));
            expect_answers(&c);
            ca_trust_case_free(&c);
        }
    }
}

/* The row of an answer, counted (b, h, i). */
static size_t row_of(const struct ca_trust_case *c, size_t n)
{
    const size_t *at = c->answers[n].at;

    return (at[0] * c->problem.heads + at[1]) * c->problem.seq_q + at[2];
}

/* First, last and spread; a quarter of the mask hides, lengths are at least a half. */
Test(trust_case, ordinary_data) {
    const clattn_problem parsed = fixture_problem("fwd f16 b5 h3 q40 k300 d16 mask=bhqk qlen klen");
    const clattn_problem p = ca_problem_normal(&parsed);
    const size_t pairs = 5 * 3 * 40 * 300;
    struct ca_trust_case c;
    size_t visible = 0, zeros = 0;

    cr_assert(ca_trust_case_make_ordinary(&c, NULL, &p));
    cr_assert(c.num_answers == 64 && row_of(&c, 0) == 0 && row_of(&c, 63) == 5 * 3 * 40 - 1);
    for (size_t n = 1; n < c.num_answers; n++)
        cr_assert(row_of(&c, n) > row_of(&c, n - 1) && row_of(&c, n) - row_of(&c, n - 1) <= 10);
    for (size_t n = 0; n < pairs; n++)
        visible += c.bytes[CA_MASK][CA_TRUST_GUARD + n] == 1;
    cr_assert(visible > pairs * 74 / 100 && visible < pairs * 76 / 100, "%zu visible", visible);
    for (size_t b = 0; b < 5; b++) {
        const cl_int *queries = (cl_int *)(void *)(c.bytes[CA_Q_LENGTHS] + CA_TRUST_GUARD);
        const cl_int *keys = (cl_int *)(void *)(c.bytes[CA_KV_LENGTHS] + CA_TRUST_GUARD);
        cr_assert(queries[b] >= 20 && queries[b] <= 40 && keys[b] >= 150 && keys[b] <= 300);
    }
    for (size_t n = 0; n < 5 * 3 * 300 * 16; n++)
        zeros += ca_value_load(c.bytes[CA_K] + CA_TRUST_GUARD, p.dtype, n) == 0.0;
    cr_assert(zeros < 5 * 3 * 300 * 16 / 1000, "%zu zeros", zeros);
    ca_trust_case_drop_inputs(&c);
    cr_assert(!c.bytes[CA_Q] && !c.bytes[CA_MASK] && c.bytes[CA_O]);
    ca_trust_case_free(&c);
}

/* ---- judgement ------------------------------------------------------------------------------ */

/* 160 rows, of which 64 are judged. */
static void solved(struct ca_trust_case *c)
{
    const size_t rows = 4 * 40;

    *c = judged_case("fwd f32 h4 q40 k30 d12 causal=br lse scores=weights", 0);
    memset(c->bytes[CA_O] + CA_TRUST_GUARD, 0, rows * 12 * 4);
    memset(c->bytes[CA_LSE] + CA_TRUST_GUARD, 0, rows * 4);
    memset(c->bytes[CA_SCORES] + CA_TRUST_GUARD, 0, rows * 30 * 4);
    judged_write(c);
}

/* Judges, and says what was seen: "" if nothing. */
static double judge(const struct ca_trust_case *c, char text[256])
{
    double error = -1.0;

    text[0] = '\0';
    const char *why = ca_trust_case_judge(c, &error, text, 256);
    cr_assert(why == NULL || why == text);
    cr_assert((why == NULL) == (text[0] == '\0'));
    return error;
}

Test(trust_case, right_results_pass) {
    struct ca_trust_case c;
    char text[256];

    solved(&c);
    const double error = judge(&c, text);
    cr_expect_str_empty(text, "%s", text);
    cr_expect(error > 0.0 && error < 1.0, "%g", error);
    ca_trust_case_free(&c);
}

Test(trust_case, what_lies_outside_is_seen) {
    static const enum ca_argument outputs[] = {CA_O, CA_LSE, CA_SCORES};
    struct ca_trust_case c;
    char text[256];

    solved(&c);
    for (size_t n = 0; n < 3; n++) {
        const size_t size = c.sizes[outputs[n]];
        const size_t places[] = {0, CA_TRUST_GUARD - 1, size - CA_TRUST_GUARD, size - 1};
        for (size_t k = 0; k < 4; k++) {
            unsigned char *byte = &c.bytes[outputs[n]][places[k]];
            *byte = 0;
            judge(&c, text);
            cr_expect(strstr(text, "outside") != NULL, "byte %zu of %zu: '%s'", places[k], n, text);
            *byte = CA_TRUST_FILL;
        }
    }
    judge(&c, text);
    cr_expect_str_empty(text);
    ca_trust_case_free(&c);
}

/* Between the elements of an output, in the hostile cases, whose strides leave room there. */
Test(trust_case, what_lies_between_elements_is_seen) {
    static const struct {
        const char *problem;
        enum ca_argument outputs[3];
        size_t num_outputs;
    } cases[] = {{"fwd f16 h2 q9 k20 d8 o=320.160.16.2", {CA_O}, 1},
                 {"bwd f32 h2 q9 k20 d8 dq=320.160.16.2 dk=640.320.16.2 dv=640.320.16.2",
                  {CA_DQ, CA_DK, CA_DV},
                  3}};
    struct ca_trust_case c;
    char text[256];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_problem parsed = fixture_problem(cases[n].problem);
        const clattn_problem p = ca_problem_normal(&parsed);
        cr_assert(ca_trust_case_make(&c, NULL, &p, NULL, NULL));
        judge(&c, text);
        cr_expect(strstr(text, "outside") == NULL, "'%s'", text);
        for (size_t out = 0; out < cases[n].num_outputs; out++) {
            const enum ca_argument argument = cases[n].outputs[out];
            const size_t element = p.dtype == CLATTN_F32 ? 4 : 2;
            /* Every second place is an element; the first gap, one far inside and the last. */
            const size_t places[] = {1, 1001,
                                     (c.sizes[argument] - 2 * CA_TRUST_GUARD) / element - 2};
            for (size_t k = 0; k < 3; k++) {
                unsigned char *gap = c.bytes[argument] + CA_TRUST_GUARD + places[k] * element;
                *gap = 0;
                judge(&c, text);
                cr_expect(strstr(text, "outside") != NULL, "gap %zu of output %d: '%s'", places[k],
                          (int)argument, text);
                *gap = CA_TRUST_FILL;
            }
        }
        ca_trust_case_free(&c);
    }
}

/* A mask of a hostile case hides some keys from some queries, a key from all and all from a query;
 * what is hidden from all is poison. */
Test(trust_case, hostile_masks_hide) {
    const clattn_problem parsed = fixture_problem("fwd f32 h2 q9 k20 d8 mask=qk");
    const clattn_problem p = ca_problem_normal(&parsed);
    struct ca_trust_case c;
    size_t hidden = 0, hidden_rows = 0, poisoned = 0;

    cr_assert(ca_trust_case_make(&c, NULL, &p, NULL, NULL));
    const size_t rows = c.problem.batch * c.problem.heads * c.problem.seq_q;
    const size_t keys = c.problem.seq_kv;
    for (size_t n = 0; n < rows; n++) {
        size_t of_row = 0;
        for (size_t j = 0; j < keys; j++)
            of_row += !c.bytes[CA_MASK][CA_TRUST_GUARD + n * keys + j];
        hidden += of_row;
        hidden_rows += of_row == keys;
    }
    cr_expect(hidden > rows * keys / 8 && hidden < rows * keys / 2, "%zu pairs", hidden);
    cr_expect(hidden_rows > 0 && hidden_rows < rows / 8, "%zu rows", hidden_rows);
    for (size_t n = 0; n < c.problem.batch * c.problem.kv_heads * keys; n++)
        poisoned += isnan(ca_value_load(c.bytes[CA_K] + CA_TRUST_GUARD, CLATTN_F32, n * 8 + 1)) ||
                    isnan(ca_value_load(c.bytes[CA_K] + CA_TRUST_GUARD, CLATTN_F32, n * 8 + 2)) ||
                    isnan(ca_value_load(c.bytes[CA_K] + CA_TRUST_GUARD, CLATTN_F32, n * 8 + 3));
    cr_expect(poisoned == c.problem.batch * c.problem.kv_heads, "%zu keys", poisoned);
    ca_trust_case_free(&c);
}

/* One program serves all diagonals: a kernel that forgets them is wrong in every hostile case. */
Test(trust_case, a_diagonal_is_never_zero) {
    static const char *const problems[] = {"fwd f32 h2 q9 k20 d8 alibi",
                                           "fwd f32 h2 q9 k20 d8 causal=tl",
                                           "fwd f32 h2 q9 k20 d8 causal=0",
                                           "fwd f32 h2 q9 k20 d8 window=3,4 klen",
                                           "bwd f32 h2 q9 k9 d8 alibi diagonal=br",
                                           "bwd f32 h2 q9 k20 d8 alibi klen qlen causal=br"};

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        const clattn_problem parsed = fixture_problem(problems[n]), p = ca_problem_normal(&parsed);
        struct ca_trust_case c;
        cr_assert(ca_trust_case_make(&c, NULL, &p, NULL, NULL));
        cr_expect(ca_problem_diagonal(&c.problem) != 0, "'%s'", problems[n]);
        /* The case's program is the problem's. */
        cr_expect((c.problem.diagonal == CLATTN_BOTTOM_RIGHT) ==
                  (p.diagonal == CLATTN_BOTTOM_RIGHT));
        ca_trust_case_free(&c);
    }
}

/* An element that is not written is found, also in a row that no answer is compared with. */
Test(trust_case, unwritten_elements_are_seen) {
    static const struct {
        enum ca_argument argument;
        size_t row_bytes;
        const char *name;
    } outputs[] = {{CA_O, 12 * 4, "o("}, {CA_LSE, 4, "lse("}, {CA_SCORES, 30 * 4, "score"}};
    struct ca_trust_case c;
    char text[256];

    solved(&c);
    const size_t row = row_of(&c, 3 * 7) + 1; /* three answers a row */
    cr_assert(row != row_of(&c, 3 * 8));
    for (size_t n = 0; n < 3; n++) {
        unsigned char *element =
            c.bytes[outputs[n].argument] + CA_TRUST_GUARD + (row + 1) * outputs[n].row_bytes - 4;
        memset(element, CA_TRUST_FILL, 4);
        judge(&c, text);
        cr_expect(strstr(text, "NaN") &&
                      strncmp(text, outputs[n].name, strlen(outputs[n].name)) == 0,
                  "'%s'", text);
        memset(element, 0, 4);
    }
    ca_trust_case_free(&c);
}

/* In the last element of an answer. */
static void expect_wrong(struct ca_trust_case *c, const struct ca_answer *answer)
{
    unsigned char *data = c->bytes[answer->argument] + CA_TRUST_GUARD;
    const size_t element = answer->first + (answer->count - 1) * answer->step;
    const struct ca_bounded last = answer->want[answer->count - 1];
    const float right = (float)last.value;
    const float wrong[] = {(float)(last.value + 3.0 * last.bound), NAN, INFINITY};
    char text[256];

    for (size_t n = 0; n < 3; n++) {
        ca_value_store(data, CLATTN_F32, element, wrong[n]);
        const double error = judge(c, text);
        cr_expect(strstr(text, n == 1 ? "NaN" : "should be") != NULL, "'%s'", text);
        cr_expect(n == 0 ? error > 2.0 && error < 4.0 : error == CA_TRUST_WORST, "%g", error);
    }
    ca_value_store(data, CLATTN_F32, element, right);
    judge(c, text);
    cr_expect_str_empty(text, "%s", text);
}

Test(trust_case, wrong_values_are_seen) {
    struct ca_trust_case c;

    solved(&c);
    for (size_t n = c.num_answers - 3; n < c.num_answers; n++) /* the last query sees all keys */
        expect_wrong(&c, &c.answers[n]);
    ca_trust_case_free(&c);
}

/* However large the dims, what is needed on the host and, for the same blocks, on the device is
 * bounded; and the cases are as large as ever where dims are usual. */
Test(trust_case, bounded_memory) {
    static const char *const kinds[] = {"fwd f32 q1 k9 d%zu lse",
                                        "bwd f16 h4/2 q7 k9 d%zu klen causal=br",
                                        "fwd bf16 q1 k9 d%zu/32 kcache=q8_0 scores=weights"};
    static const size_t dims[] = {512, 65536, 1 << 20, (size_t)1 << 40};
    char text[128], reason[256];

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            struct ca_trust_case c;
            double bytes = 0.0;
            snprintf(text, sizeof text, kinds[k], dims[d]);
            const clattn_problem parsed = fixture_problem(text), p = ca_problem_normal(&parsed);
            const int refused = ca_trust_refuses(&p, reason, sizeof reason);
            cr_expect(refused == (dims[d] >= 1 << 20), "'%s'", text);
            if (refused) {
                cr_expect(strstr(reason, "dim_qk is") && strstr(reason, "64 MiB"), "%s", reason);
                continue;
            }
            cr_assert(ca_trust_case_make(&c, NULL, &p, NULL, NULL));
            cr_expect(c.problem.dim_qk == p.dim_qk && c.problem.dim_v == p.dim_v);
            cr_expect((c.problem.seq_q == 67) == (dims[d] <= 512), "'%s'", text);
            for (size_t n = 0; n < CA_WORKSPACE; n++)
                bytes += 2.0 * (double)c.sizes[n];
            bytes += 16.0 * (double)c.room_used;
            cr_expect(bytes <= 64 << 20, "'%s': %.1f MiB", text, bytes / (1 << 20));
            ca_trust_case_free(&c);
        }
}

/* Where nothing is seen, o is exactly 0. */
Test(trust_case, rows_that_see_nothing) {
    struct ca_trust_case c = judged_case("fwd f32 q3 k4 d8 causal=-2 lse", 0);
    const struct ca_bounded *o = c.answers[0].want, *lse = c.answers[3].want;
    char text[256];

    judged_write(&c);
    cr_assert(o->value == 0.0 && o->bound == 0.0 && lse->value == -(double)INFINITY);
    judge(&c, text);
    cr_expect_str_empty(text, "%s", text);
    ca_value_store(c.bytes[CA_O] + CA_TRUST_GUARD, CLATTN_F32, 3, 1e-20f);
    cr_expect(judge(&c, text) == CA_TRUST_WORST && strstr(text, "o(0, 0, 0, 3)"), "%s", text);
    ca_trust_case_free(&c);
}

/* ---- numbers -------------------------------------------------------------------------------- */

Test(trust_case, halves_are_read_exactly) {
    for (unsigned n = 0; n < 1u << 16; n++) {
        const unsigned short half = (unsigned short)n;
        for (int t = 0; t < 2; t++) {
            const clattn_dtype dtype = t ? CLATTN_BF16 : CLATTN_F16;
            const double got = ca_value_load((const unsigned char *)&half, dtype, 0);
            const double want = value_get(dtype, &half, 0);
            cr_assert(got == want || (isnan(got) && isnan(want)), "%x: %g, %g", n, got, want);
            cr_assert((ca_values_find_nan((const unsigned char *)&half, dtype, 0, 1, 1) == 0) ==
                      (isnan(want) != 0));
        }
    }
}
