/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's as objects: sources that are refused, their text form, equal ones, what is said of them; values of
 * parameters without a compilation, and a source that the compiler refuses. */
#include "context/context.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

TestSuite(function, .init = unoptimised, .timeout = 120);

#define SCORE "float score(float s, pair p, operands o) { return s; }\n"
#define VISIBLE "bool visible(pair p, operands o) { return true; }\n"
#define OPERAND(name) "#pragma clattn operand float " name "[h]\n"
#define PARAMETER(name) "#pragma clattn parameter int " name " = 1\n"

static const clattn_function *make(const char *name, const char *source)
{
    const clattn_function *f;
    char reason[256];

    cr_assert(clattn_function_create(name, source, &f, reason, sizeof reason) == CLATTN_SUCCESS,
              "%s", reason);
    cr_assert(reason[0] == '\0', "%s", reason);
    return f;
}

Test(function, refused_sources) {
    static const struct {
        const char *source, *words;
    } cases[] = {
        {"", "neither score() nor visible()"},
        {"float scored(float s, pair p, operands o) { return s; }", "neither score() nor"},
        {"// float score(float s)\n/* bool visible() */ int x;", "neither score() nor"},
        {SCORE VISIBLE, "not both"},
        {VISIBLE "float score_derivative(float s, pair p, operands o) { return 1; }",
         "score_derivative() needs a score()"},
        {"\nfloat score(float s, pair p) { return s; }",
         "line 2: score() is declared as float score("},
        {"float score(pair p, float s, operands o) { return s; }", "score() is declared as float"},
        {"float score() { return 0; }", "score() is declared as float score(float s, pair p,"},
        {"float score(float s, pair p, operands o, int x) { return s; }", "score() is declared as"},
        {SCORE "float score_derivative(float s) { return 1; }",
         "score_derivative() is declared as float score_derivative("},
        {"bool visible(float s, pair p, operands o) { return true; }",
         "visible() is declared as bool visible(pair p, operands o)"},
        {"\n\n#include \"x.h\"\n" SCORE, "line 3: a function may not include files"},
        {"\n  # include <x>\n" SCORE, "line 2: a function may not include files"},
        {"#pragma clattn operator float x[h]\n" SCORE, "line 1: a declaration is of an operand"},
        {"#pragma clattn\n" SCORE, "line 1: a declaration is of an operand"},
        {"#pragma clattn operand float\n" SCORE, "line 1: an operand needs a type and a name"},
        {"#pragma clattn operand float 3x[h]\n" SCORE, "an operand needs a type and a name"},
        {"#pragma clattn operand double x[h]\n" SCORE, "the type of an operand is float, half"},
        {"#pragma clattn operand float x\n" SCORE, "an operand needs extents"},
        {"#pragma clattn operand float x[]\n" SCORE, "an extent is a positive number"},
        {"#pragma clattn operand float x[0]\n" SCORE, "an extent is a positive number"},
        {"#pragma clattn operand float x[z]\n" SCORE, "an extent is a positive number"},
        {"#pragma clattn operand float x[3\n" SCORE, "an extent is a positive number"},
        {"#pragma clattn operand float x[1][1][1][1][1][1][1][1][1]\n" SCORE, "at most eight"},
        {"#pragma clattn operand float x[h] y\n" SCORE, "followed by other text"},
        {OPERAND("a") OPERAND("a") SCORE, "line 2: the name is declared twice"},
        {OPERAND("a") PARAMETER("a") SCORE, "line 2: the name is declared twice"},
        {OPERAND("a") OPERAND("b") OPERAND("c") OPERAND("d") OPERAND("e") OPERAND("f") OPERAND("g")
             SCORE,
         "line 7: there are more than six operands"},
        {PARAMETER("a") PARAMETER("b") PARAMETER("c") PARAMETER("d") PARAMETER("e") SCORE,
         "line 5: there are more than four parameters"},
        {"#pragma clattn parameter int\n" SCORE, "a parameter needs a type, a name and a value"},
        {"#pragma clattn parameter int x\n" SCORE, "a parameter needs a type, a name and a value"},
        {"#pragma clattn parameter half x = 1\n" SCORE, "the type of a parameter is int or float"},
        {"#pragma clattn parameter int x =\n" SCORE, "the value of a parameter cannot be read"},
        {"#pragma clattn parameter int x = 1.5\n" SCORE, "the value of a parameter cannot be"},
        {"#pragma clattn parameter int x = 1f\n" SCORE, "the value of a parameter cannot be"},
        {"#pragma clattn parameter float x = one\n" SCORE, "the value of a parameter cannot be"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_function *f = (const clattn_function *)cases;
        char reason[256];
        const clattn_status status =
            clattn_function_create("a/b.cl", cases[n].source, &f, reason, sizeof reason);
        cr_expect(status == CLATTN_INVALID_PROBLEM && f == NULL, "'%s': %s", cases[n].source,
                  clattn_status_string(status));
        cr_expect(strncmp(reason, "a/b.cl, line ", 13) == 0 && strstr(reason, cases[n].words),
                  "'%s': %s", cases[n].source, reason);
    }
}

/* Parameters may be const, and macros may write them. */
Test(function, other_spellings) {
    static const char *const sources[] = {
        "float score(const float s /* , */, const pair p, // of (b, h)\n operands const o) { "
        "return s; }",
        "#define PARAMETERS float s, pair p, operands o\nfloat score(PARAMETERS) { return s; }",
        "float score(float, pair, operands);\nfloat score(float s, pair p, operands o) { return s; "
        "}",
    };

    for (size_t n = 0; n < sizeof sources / sizeof *sources; n++)
        make("spelling.cl", sources[n]);
}

Test(function, refused_names) {
    const char *names[] = {"", "a b", "a:b", "a,b", "\xc3\xa4", "a=b"};
    char longest[202];
    const clattn_function *f;
    char reason[256];

    memset(longest, 'x', sizeof longest);
    longest[201] = '\0';
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        cr_expect(clattn_function_create(names[n], SCORE, &f, reason, sizeof reason) ==
                          CLATTN_INVALID_ARGUMENT &&
                      strstr(reason, "1 to 200 letters"),
                  "'%s': %s", names[n], reason);
    cr_expect(clattn_function_create(longest, SCORE, &f, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    longest[200] = '\0';
    cr_expect(clattn_function_create(longest, SCORE "// 200", &f, NULL, 0) == CLATTN_SUCCESS);
    cr_expect(clattn_function_create(NULL, SCORE, &f, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_function_create("x", NULL, &f, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_function_create("x", SCORE, NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_function_read("/nowhere/x.cl", &f, reason, sizeof reason) ==
                      CLATTN_FILE_ERROR &&
                  f == NULL && strstr(reason, "/nowhere/x.cl"),
              "%s", reason);
}

Test(function, what_is_said) {
    const clattn_function *f =
        make("some/name.cl", "#pragma clattn operand half table[h][64]\n"
                             "#pragma clattn parameter float slope = 0.5f\n"
                             "  #pragma clattn parameter int far = -7\n"
                             "#pragma clattn operand uchar x[b] [ k ]\n" SCORE);
    clattn_function_operand operand = {.struct_size = sizeof operand};
    clattn_function_parameter parameter = {.struct_size = sizeof parameter};

    cr_expect(clattn_function_kind_of(f) == CLATTN_SCORE_FUNCTION);
    cr_expect(clattn_function_kind_of(make("m", VISIBLE)) == CLATTN_MASK_FUNCTION);
    cr_expect(strncmp(clattn_function_name(f), "some/name.cl:", 13) == 0 &&
                  strlen(clattn_function_name(f)) == 13 + 16,
              "%s", clattn_function_name(f));
    cr_expect(clattn_function_get_operand(f, 0, &operand) == CLATTN_SUCCESS);
    cr_expect(strcmp(operand.name, "table") == 0 && operand.type == CLATTN_FUNCTION_HALF &&
              strcmp(operand.extents, "[h][64]") == 0);
    cr_expect(clattn_function_get_operand(f, 1, &operand) == CLATTN_SUCCESS);
    cr_expect(strcmp(operand.name, "x") == 0 && operand.type == CLATTN_FUNCTION_UCHAR &&
              strcmp(operand.extents, "[b][k]") == 0);
    cr_expect(clattn_function_get_operand(f, 2, &operand) == CLATTN_SUCCESS && !operand.name);
    cr_expect(clattn_function_get_parameter(f, 0, &parameter) == CLATTN_SUCCESS);
    cr_expect(strcmp(parameter.name, "slope") == 0 && parameter.is_float && parameter.number == 0 &&
              parameter.float_value == 0.5f);
    cr_expect(clattn_function_get_parameter(f, 1, &parameter) == CLATTN_SUCCESS);
    cr_expect(strcmp(parameter.name, "far") == 0 && !parameter.is_float && parameter.number == 0 &&
              parameter.int_value == -7);
    cr_expect(clattn_function_get_parameter(f, 2, &parameter) == CLATTN_SUCCESS && !parameter.name);
}

/* Equal sources are one function, whose first name stays; problems name it, and take it back by its hash. */
Test(function, identity_and_text) {
    const clattn_function *first = make("first", SCORE "// identity");
    clattn_problem p = fixture_problem("fwd f32 b1 h2 q3 k4 d8"), again;
    char text[512], reason[256], other[64];

    cr_expect(make("second", SCORE "// identity") == first);
    cr_expect(strncmp(clattn_function_name(first), "first:", 6) == 0);
    cr_expect(make("first", SCORE "// other") != first);
    p.score_function = first;
    p.mask_function = make("mask", VISIBLE);
    cr_assert(clattn_problem_print(&p, text, sizeof text, NULL) == CLATTN_SUCCESS);
    cr_expect(strstr(text, " score=first:") && strstr(text, " visible=mask:"), "%s", text);
    cr_assert(clattn_problem_parse(text, &again, reason, sizeof reason) == CLATTN_SUCCESS, "%s",
              reason);
    cr_expect(again.score_function == first && again.mask_function == p.mask_function);
    snprintf(other, sizeof other, "fwd f32 b1 h2 q3 k4 d8 score=x%s",
             strrchr(clattn_function_name(first), ':'));
    cr_expect(clattn_problem_parse(other, &again, reason, sizeof reason) == CLATTN_SUCCESS &&
                  again.score_function == first,
              "%s: %s", other, reason);
    cr_expect(clattn_problem_parse("fwd f32 b1 h2 q3 k4 d8 score=first:0123456789abcdef", &again,
                                   reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                  strstr(reason, "'first' is no function of the library, and no file"),
              "%s", reason);
}

/* Problems with functions that are refused. */
Test(function, refused_problems) {
    const clattn_function *score = make("score", SCORE), *mask = make("mask", VISIBLE);
    clattn_problem p = fixture_problem("fwd f32 b1 h2 q3 k4 d8");
    char reason[256];

    p.score_function = mask;
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                  strstr(reason, "score_function defines score()"),
              "%s", reason);
    p.score_function = NULL;
    p.mask_function = score;
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM, "%s",
              reason);
    p.mask_function = make("three", PARAMETER("a") PARAMETER("b") PARAMETER("c") VISIBLE);
    p.score_function = make("two", PARAMETER("a") PARAMETER("b") SCORE);
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                  strstr(reason, "5 ints"),
              "%s", reason);
    p = fixture_problem("fwd f32 b1 h2 q3 k4 d8");
    p.score_function = score;
    p.seq_kv = (size_t)INT32_MAX + 1;
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                  strstr(reason, "2^31 - 1"),
              "%s", reason);
    p = fixture_problem("fwd f32 b1 h2 q3 k4 d8 score=t5 wholeb=1 wholeh=2 wholeq=3 wholek=4");
    p.score_function = NULL;
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                  strstr(reason, "no function that sees it"),
              "%s", reason);
    p.score_function = score;
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_SUCCESS, "%s", reason);
    size_t *const whole[] = {&p.whole_batch, &p.whole_heads, &p.whole_q, &p.whole_kv};
    for (size_t n = 0; n < sizeof whole / sizeof *whole; n++) {
        const size_t before = *whole[n];
        *whole[n] = n == 2 ? 0 : before - 1;
        cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                      strstr(reason, "no part of"),
                  "%zu: %s", n, reason);
        *whole[n] = before;
    }
}

/* Conditions of a problem for gradients of operands. */
Test(function, refused_gradients) {
    static const struct {
        const char *problem, *source, *why;
    } cases[] = {
        {"bwd f32 b1 h2 q3 k4 d8", NULL, "there is no score function"},
        {"fwd f32 b1 h2 q3 k4 d8", SCORE, "outputs of backward only"},
        {"bwd f32 b1 h2 q3 k4 d8", SCORE, "loads no element of type float, half or bfloat"},
        {"bwd f32 b1 h2 q3 k4 d8",
         "#pragma clattn operand int t[h]\n"
         "float score(float s, pair p, operands o) { return s + t_of(o, p); }",
         "loads no element of type float, half or bfloat"},
        {"bwd f32 b1 h2 q3 k4 d8",
         "#pragma clattn operand float t[h]\n"
         "float score(float s, pair p, operands o)\n"
         "{ for (int n = 0; n < 2; n++)\n s += t_at(o, n);\n return s; }",
         "line 4 has t_at() in a loop"},
        {"bwd f32 b1 h2 q3 k4 d8",
         "#pragma clattn operand float t[h]\n"
         "float first(operands o) { return t_at(o, 0); }\n"
         "float score(float s, pair p, operands o) { return s + first(o); }",
         "line 3 has first(), which may load from operands"},
        {"bwd f32 b1 h2 q3 k4 d8",
         "#pragma clattn operand float t[h]\n"
         "float score(float s, pair p, operands o) { return pow(2.0f, t_of(o, p)); }\n"
         "float score_derivative(float s, pair p, operands o) { return 0.0f; }",
         "line 2 has pow() of something that depends on an operand"},
        {"bwd f32 b1 h2 q3 k4 d8",
         "#pragma clattn operand float t[2147483648]\n"
         "float score(float s, pair p, operands o) { return s * t_at(o, 0); }",
         "2^31 - 1"},
    };
    char reason[400];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        clattn_problem p = fixture_problem(cases[n].problem);
        p.score_function = cases[n].source ? make("gradients", cases[n].source) : NULL;
        p.dfunction = 1;
        cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM &&
                      strstr(reason, cases[n].why),
                  "case %zu: %s", n, reason);
    }
}

/* The places of the operands' gradients. */
Test(function, places_of_gradients) {
    clattn_problem p = fixture_problem("bwd f32 b2 h4/2 q3 k5 d8");

    cr_expect(clattn_problem_function_gradient(NULL, 0) == 0);
    cr_expect(clattn_problem_function_gradient(&p, 9) == 0);
    p.score_function =
        make("places", "#pragma clattn operand half a[h][7]\n#pragma clattn operand int b[b][q]\n"
                       "#pragma clattn operand bfloat c[g][k]\n#pragma clattn operand float d[3]\n"
                       "float score(float s, pair p, operands o)\n"
                       "{ return s + a_at(o, 0) * c_of(o, p) + d_at(o, b_of(o, p)); }");
    static const size_t places[] = {0, 28, 28, 38, 41, 41};
    for (size_t n = 0; n < sizeof places / sizeof *places; n++)
        cr_expect(clattn_problem_function_gradient(&p, n) == places[n], "%zu", n);
}

/* The compiler's sentence has the name and the line of the source. */
DeviceTest(function, that_does_not_compile)
{
    clattn_problem p = fixture_problem("fwd f32 b1 h2 q3 k4 d8");
    clattn_plan *plan;

    p.score_function = make("folder/wrong.cl", "#pragma clattn operand float x[h]\n\n"
                                               "float score(float s, pair p, operands o)\n"
                                               "{\n    return s + x_of(o, p) * missing;\n}\n");
    const clattn_status status = clattn_plan_create(f->context, &p, NULL, &plan);
    cr_expect(status == CLATTN_BUILD_FAILED, "%s", clattn_status_string(status));
    cr_expect(strstr(clattn_context_last_error(f->context), "a function does not compile on") &&
                  strstr(clattn_context_last_error(f->context), ": folder/wrong.cl:5:"),
              "%s", clattn_context_last_error(f->context));
    cr_expect(strstr(clattn_context_last_error(f->context), "missing"), "%s",
              clattn_context_last_error(f->context));
}

/* Values of parameters change from call to call; nothing is compiled for them. */
DeviceTest(function, parameters_without_compiling)
{
    clattn_problem p = fixture_problem("fwd f32 b1 h1 q5 k7 d8 lse");
    struct trial t = {.seed = 3};
    size_t builds = 0;

    p.score_function =
        make("scaled", "#pragma clattn parameter float factor = 1\n"
                       "#pragma clattn parameter int lift = 0\n"
                       "float score(float s, pair p, operands o)\n"
                       "{ return s * o.factor + (float)(o.lift * p.key) * 0.125f; }\n");
    p.mask_function = make("near", "#pragma clattn parameter int reach = 3\n"
                                   "bool visible(pair p, operands o)\n"
                                   "{ return p.key - p.query <= o.reach; }\n");
    for (int n = 0; n < 4; n++) {
        t.problem = p;
        trial_fill(&t);
        t.valued = n > 0;
        t.values = (clattn_function_values){{n, 3 - n}, {0.5f * (float)n}};
        trial_run(f, &t);
        trial_check(&t);
        trial_free(&t);
        if (n == 0)
            builds = atomic_load(&f->context->builds);
    }
    cr_expect(atomic_load(&f->context->builds) == builds, "%zu programs",
              (size_t)atomic_load(&f->context->builds));
}
