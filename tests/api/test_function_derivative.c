/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of score functions that the library derives (clattn/function.h). */
#include "problem/function.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(function_derivative, .init = unoptimised, .timeout = 300);

#define HEAD "#pragma clattn operand float t[h]\n#pragma clattn parameter float c = 2\n"
#define BODY(text) HEAD "float score(float s, pair p, operands o)\n{\n" text "\n}\n"

static const clattn_function *make(const char *source)
{
    const clattn_function *f;
    char why[500];

    cr_assert_eq(clattn_function_create("test", source, &f, why, sizeof why), CLATTN_SUCCESS,
                 "%s: %s", source, why);
    return f;
}

/* The text of what each function returns. */
Test(function_derivative, texts) {
    static const struct {
        const char *body, *result;
    } cases[] = {
        {"return s;", "return 1.0f;"},
        {"return o.c;", "return 0.0f;"},
        {"return s + t_at(o, p.head) * (float)(p.key - p.query);", "return 1.0f;"},
        {"return 3.0f - s;", "return (-1.0f);"},
        {"return s * o.c;", "return (float)(o.c);"},
        {"return s / o.c;", "return (1.0f / (o.c));"},
        {"return s * s;", "return ((float)(s) + (float)(s));"},
        {"return p.key > p.query ? -INFINITY : s;", "return (p.key > p.query ? 0.0f : 1.0f);"},
        {"return (float)(int)s;", "return 0.0f;"},
        {"return floor(s);", "return 0.0f;"},
        {"return exp(s);", "return (exp((s)) * 1.0f);"},
        {"return fmin(s, 3.0f);", "return ((s) <= (3.0f) ? 1.0f : 0.0f);"},
        {"return 1e-3f * 2.E+1f + 0x1p-3f + s;", "return 1.0f;"},
        {"/* s * s; */ return s; // s", "return 1.0f;"},
        {"const float x = s * 2.0f, y = x;\n return y;", "return derivative_of_y;"},
        {"float x = s;\n if (x < 0.0f) { return -x; } else if (x > 3.0f) return 3.0f;\n return x;",
         "return (-derivative_of_x);"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char source[1000];
        snprintf(source, sizeof source, BODY("%s"), cases[n].body);
        const clattn_function *f = make(source);
        cr_assert(f->derived, "%s: %s", cases[n].body, f->no_derivative);
        cr_assert(strstr(f->derived, cases[n].result), "%s: %s", cases[n].body, f->derived);
    }
}

Test(function_derivative, sentences) {
    static const struct {
        const char *source, *why;
    } cases[] = {
        {BODY("while (s > 1.0f)\n        s *= 0.5f;\n    return s;"),
         "line 5 has 'while', which begins no statement that the derivation knows"},
        {BODY("for (;;)\n        return s;"), "line 5 has a loop that does not begin with an int"},
        {BODY("float x = s;\n for (int n = 0; n < 3; x += s)\n n++;\n    return x;"),
         "line 6 has a loop whose step is not that of an integer"},
        {BODY("o.c = s;\n\n    return s;"),
         "line 5 has 'o', which begins no statement that the derivation knows"},
        {BODY("return\n tgamma(s);"), "line 6 has tgamma() of something that depends on the score"},
        {BODY("return pow(2.0f, s);"), "line 5 has pow() of something that depends on the score"},
        {BODY("return s + x;"), "line 5 has 'x', which is no variable that the derivation knows"},
        {BODY("return s * ;"), "line 5 has ';' where the derivation expects an expression"},
        {BODY("return s s;"), "line 5 has s; where the derivation expects ';'"},
        {BODY("if (s > 0.0f) {\n    float x[2];\n    }\n    return s;"),
         "line 6 has [2]; where the derivation expects '='"},
        {"#define T s\nfloat score(float s, pair p, operands o) { return T; }",
         "line 1 has a directive of the preprocessor"},
        {"float score(float s, pair p, operands o);", "line 1 has no definition of score() that"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char why[500], sentence[300];
        clattn_problem p;
        cr_assert_eq(clattn_problem_parse("bwd f32 q4 k4 d8", &p, why, sizeof why), CLATTN_SUCCESS);
        p.score_function = make(cases[n].source);
        cr_assert_eq(clattn_problem_check(&p, why, sizeof why), CLATTN_INVALID_PROBLEM, "%s",
                     cases[n].source);
        snprintf(sentence, sizeof sentence, "none can be derived, since %s", cases[n].why);
        cr_assert(strstr(why, sentence), "%s, not %s", why, sentence);
    }
}

/* The derivative of a load: the element that it reads, and the score's derivative by it. */
Test(function_derivative, texts_of_loads) {
    static const struct {
        const char *body, *index, *derivative;
        size_t loads;
    } cases[] = {
        {"return s;", "", "", 0},
        {"return s + t_at(o, p.head) * s;", "return (int)(p.head);", "return (float)(s);", 1},
        {"return exp(t_of(o, p));", "return (int)score_function_t_place(o, p);",
         "return (exp((t_of(o, p))) * 1.0f);", 1},
        {"const int n = p.key % 2;\n const float x = t_at(o, n);\n return s * x;",
         "int n = p.key % 2;\nreturn (int)(n);", "return (derivative_of_x * (s));", 1},
        {"if (s > 0.0f)\n return t_at(o, 1);\n return s - t_at(o, 0);",
         "if (s > 0.0f)\n{\nreturn (int)(1);\nreturn -1;\n}\nreturn -1;", "return (-1.0f);", 2},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char source[1000];
        snprintf(source, sizeof source, BODY("%s"), cases[n].body);
        const clattn_function *f = make(source);
        cr_assert(f->has_loads, "%s: %s", cases[n].body, f->no_loads);
        cr_assert(f->num_loads == cases[n].loads);
        cr_assert(strstr(f->derived_loads, cases[n].index) &&
                      strstr(f->derived_loads, cases[n].derivative),
                  "%s: %s", cases[n].body, f->derived_loads);
    }
}

/* A source that is too deep or too long is refused. */
Test(function_derivative, limits) {
    static char deep[5000], wide[5000];

    memset(deep, '(', 2000);
    const size_t head = (size_t)snprintf(wide, sizeof wide, BODY("return s"));
    char *at = wide + head - 3; /* before the end of the body */
    for (int n = 0; n < 900; n++)
        at += snprintf(at, 4, "*s");
    snprintf(at, 10, ";\n}\n");
    cr_assert(strstr(make(wide)->no_derivative, "a derivative that is too long"));
    char source[6000];
    snprintf(source, sizeof source, BODY("return %s"), deep);
    cr_assert(strstr(make(source)->no_derivative, "nested parts of an expression"));
}

/* ---- on the device --------------------------------------------------------------------------- */

enum { HEADS = 2, QUERIES = 9, KEYS = 13, DIM = 8 };

static void gradients(struct fixture *f, const char *source, float dq[HEADS * QUERIES * DIM])
{
    static float q[HEADS * QUERIES * DIM], k[HEADS * KEYS * DIM], v[HEADS * KEYS * DIM];
    static float o[HEADS * QUERIES * DIM], d_o[HEADS * QUERIES * DIM], lse[HEADS * QUERIES];
    static float dk[HEADS * KEYS * DIM], dv[HEADS * KEYS * DIM];
    static const float t[HEADS] = {0.5f, -1.5f};
    clattn_problem forward = fixture_problem("fwd f32 h2 q9 k13 d8 lse");
    clattn_problem backward = fixture_problem("bwd f32 h2 q9 k13 d8");
    struct rng rng = rng_seed(5);

    for (size_t n = 0; n < sizeof q / sizeof *q; n++) {
        q[n] = (float)rng_uniform(&rng, -1.0, 1.0);
        d_o[n] = (float)rng_uniform(&rng, -1.0, 1.0);
    }
    for (size_t n = 0; n < sizeof k / sizeof *k; n++) {
        k[n] = (float)rng_uniform(&rng, -1.0, 1.0);
        v[n] = (float)rng_uniform(&rng, -1.0, 1.0);
    }
    forward.score_function = backward.score_function = make(source);
    const clattn_host_forward_tensors to = {
        .struct_size = sizeof to, .q = q, .k = k, .v = v, .o = o, .lse = lse, .function_0 = t};
    const clattn_host_backward_tensors back = {.struct_size = sizeof back,
                                               .q = q,
                                               .k = k,
                                               .v = v,
                                               .o = o,
                                               .lse = lse,
                                               .d_o = d_o,
                                               .dq = dq,
                                               .dk = dk,
                                               .dv = dv,
                                               .function_0 = t};
    cr_assert_eq(clattn_attention_forward_host(f->context, &forward, NULL, &to), CLATTN_SUCCESS,
                 "%s", f->log.last);
    cr_assert_eq(clattn_attention_backward_host(f->context, &backward, NULL, &back), CLATTN_SUCCESS,
                 "%s", f->log.last);
}

/* Derived sources agree with derivatives worked out by hand. */
DeviceTest(function_derivative, by_hand)
{
    static const struct {
        const char *body, *derivative;
    } cases[] = {
        {"const float a = o.c * tanh(s / o.c);\n const float u = a * a + fabs(s);\n"
         "if (p.key == 3) return s - u * 0.25f;\n"
         "return exp(-u) + (p.key % 2 ? sqrt(s * s + 1.0f) : log(s * s + 2.0f)) * t_at(o, p.head);",
         "const float h = tanh(s / o.c), a = o.c * h, da = 1.0f - h * h;\n"
         "const float u = a * a + fabs(s), du = 2.0f * a * da + (s < 0.0f ? -1.0f : 1.0f);\n"
         "if (p.key == 3) return 1.0f - 0.25f * du;\n"
         "return -exp(-u) * du + t_at(o, p.head) * (p.key % 2 ? s / sqrt(s * s + 1.0f) :"
         " 2.0f * s / (s * s + 2.0f));"},
        {"const float x = s - 0.25f;\n"
         "return clamp(s, -0.5f, 0.5f) + fmax(x, 0.0f) - fmin(2.0f * s, x) + 1.0f / (2.0f + s * s)"
         " + fma(s, x, sin(s)) - cos(x) + erf(s) + exp2(s) + log2(3.0f + s * s)"
         " + rsqrt(1.0f + s * s) + log1p(s * s) + pown(s, 3) + pow(s * s + 1.0f, 1.5f);",
         "const float x = s - 0.25f, r = s * s + 1.0f;\n"
         "return (fabs(s) < 0.5f ? 1.0f : 0.0f) + (x > 0.0f ? 1.0f : 0.0f)"
         " - (2.0f * s < x ? 2.0f : 1.0f) - 2.0f * s / ((2.0f + s * s) * (2.0f + s * s))"
         " + x + s + cos(s) + sin(x) + 1.12837917f * exp(-s * s) + 0.69314718f * exp2(s)"
         " + 2.0f * s / (3.0f + s * s) * 1.44269504f - s * rsqrt(r) / r + 2.0f * s / r"
         " + 3.0f * s * s + 3.0f * s * sqrt(r);"},
        {"float x = s, y;\n for (int n = 0; n < 3; ++n) {\n y = x * x;\n"
         " if (n == p.key % 2)\n x += y;\n else { x /= 1.0f + y; x -= 0.5f; }\n }\n"
         " s *= 0.25f;\n return x * s;",
         "float x = s, d = 1.0f;\n for (int n = 0; n < 3; n++) {\n const float y = x * x;\n"
         " if (n == p.key % 2) { d = d + 2.0f * x * d; x = x + y; }\n"
         " else { d = d * (1.0f - y) / ((1.0f + y) * (1.0f + y)); x = x / (1.0f + y) - 0.5f; }\n "
         "}\n"
         " return 0.25f * (x + s * d);"},
    };

    size_t numbers[sizeof cases / sizeof *cases];
    const size_t taken = numbers_taken(sizeof cases / sizeof *cases, 0, 3, numbers);

    for (size_t i = 0; i < taken; i++) {
        const size_t n = numbers[i];
        char source[3000];
        float derived[HEADS * QUERIES * DIM], given[HEADS * QUERIES * DIM];
        snprintf(source, sizeof source, BODY("%s"), cases[n].body);
        gradients(f, source, derived);
        snprintf(source, sizeof source,
                 BODY("%s") "float score_derivative(float s, pair p, operands o)\n{\n%s\n}\n",
                 cases[n].body, cases[n].derivative);
        gradients(f, source, given);
        for (size_t x = 0; x < sizeof given / sizeof *given; x++)
            cr_assert_float_eq(derived[x], given[x], 1e-5f * (1.0f + fabsf(given[x])),
                               "%zu: %g, not %g", n, (double)derived[x], (double)given[x]);
    }
}

/* ---- functions of the distance ----------------------------------------------------------------- */

/* Which functions add what depends on the distance alone (src/problem/function_distance.h). */
Test(function_derivative, distances) {
    static const struct {
        const char *body;
        int of_distance, hides;
    } cases[] = {
        {"return s;", 1, 0},
        {"return s + t_at(o, p.head) * (float)(p.key - p.query);", 1, 0},
        {"const int d = abs(p.own_query - p.own_key);\n return 2.0f * (float)d + s;", 1, 0},
        {"const float x = s - o.c, y = 1.0f;\n return x + y;", 1, 0},
        {"if (p.query - p.key > 4) return -INFINITY;\n s += o.c;\n return s;", 1, 1},
        {"float x = 0.0f;\n for (int n = 0; n < 3; n++) x += t_at(o, n);\n return s - x;", 1, 0},
        {"return s + (float)p.keys;", 1, 0},
        {"return s + (float)p.key;", 0, 0},
        {"return s + (float)(p.key - 2 * p.query);", 0, 0},
        {"return s + (float)(2 * p.key - p.query);", 0, 0},
        {"return s + (float)(p.key - p.query * 2);", 0, 0},
        {"return s + (float)p.key - p.query;", 0, 0},
        {"return s + (float)(p.key - p.own_query);", 0, 0},
        {"return s + (float)(p.key - p.queries);", 0, 0},
        {"const pair x = p;\n return s + (float)x.key;", 0, 0},
        {"return s + t_of(o, p);", 0, 0},
        {"return s + t_at(o, t_place(o, p));", 0, 0},
        {"return s * o.c;", 0, 0},
        {"return s + s;", 0, 0},
        {"return o.c - s;", 0, 0},
        {"return o.c * s;", 0, 0},
        {"return s + o.c > 1.0f ? 1.0f : 0.0f;", 0, 0},
        {"return s + o.c * fabs(s);", 0, 0},
        {"const float x = s;\n return x + 0.1f * s;", 0, 0},
        {"if (s > 0.0f) return s + 1.0f;\n return s - 1.0f;", 0, 0},
        {"float x = s;\n x *= 2.0f;\n return x;", 0, 0},
        {"float x = s;\n x = 2.0f;\n return x + s;", 0, 0},
        {"return 1.0f;", 0, 0},
        {"return p.key - p.query > 1 ? -INFINITY : s;", 0, 0},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char source[1000];
        snprintf(source, sizeof source, BODY("%s"), cases[n].body);
        const clattn_function *f = make(source);
        cr_expect_eq(f->of_distance, cases[n].of_distance, "%s", cases[n].body);
        if (f->of_distance)
            cr_expect_eq(f->hides_distances, cases[n].hides, "%s", cases[n].body);
    }
    cr_expect_not(make("#define D p.key\n" BODY("return s + (float)(D - p.query);"))->of_distance);
}
