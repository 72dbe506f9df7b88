/* SPDX-License-Identifier: Apache-2.0 */
/* The judge's interpreter of functions (bench/judge/function.h). */
#include "bench/judge/function.h"
#include "bench/judge/judge.h"
#include "tests/trials/random_function.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double u = 0x1p-24;

static const float table[] = {0.5f, -1.25f, 3.0f, 0.1f, 7.0f, -2.0f, 0.75f, 1.5f};
static const int32_t whole[] = {3, -7, 11, 2, 5, -1, 8, 4};

/* batch 1 of 2, head 3 of 4, kv head 1 of 2, query 1 of 2, key 3 of 4 */
static struct function_pair pair_here(void)
{
    const struct function_pair pair = {
        .members = {1, 3, 1, 5, 9, 20, 30, 1, 3, 1, 1, 3},
        .own = {1, 3, 1, 1, 3},
        .sizes = {2, 4, 2, 2, 4},
        .operands = {table, whole},
    };

    return pair;
}

static const struct function_program *read(const char *source)
{
    const clattn_function *f;
    char reason[256];

    cr_assert(clattn_function_create("test", source, &f, reason, sizeof reason) == CLATTN_SUCCESS,
              "%s", reason);
    return function_program_of(f);
}

/* score() whose body is these statements. */
static struct bounded score_of(const char *declarations, const char *body, struct bounded s,
                               struct bounded *slope)
{
    char source[2048];
    struct bounded other;

    snprintf(
        source, sizeof source,
        "#pragma clattn operand float table[q][k]\n#pragma clattn operand int whole[b][k]\n"
        "#pragma clattn parameter int two = 2\n#pragma clattn parameter float half_one = 0.5f\n"
        "%s\nfloat score(float s, pair p, operands o) { %s }\n",
        declarations, body);
    const struct function_program *program = read(source);
    const char *mistake = function_mistake(program);
    cr_assert(mistake == NULL, "%s: %s", body, mistake);
    const struct function_pair pair = pair_here();
    return function_score(program, &pair, u, s, slope ? slope : &other);
}

/* Bodies and what they return for s = 1.5, exactly. */
Test(reference_functions, values) {
    static const struct {
        const char *body;
        double value;
    } cases[] = {
        {"return s;", 1.5},
        {"return 2;", 2},
        {"return 7 / 2;", 3},
        {"return -7 / 2 + -7 % 4;", -6},
        {"return 7.0f * 0.5f;", 3.5},
        {"return 1 + 2 * 3 - (4 << 1) / 2;", 3},
        {"return (5 & 6) | (1 ^ 9);", 12},
        {"return ~5 + !0 + !7;", -5},
        {"return 3 > 2 && 2 >= 2 || 1 < 0;", 1},
        {"return 1 == 1 != 0;", 1},
        {"return s > 1.0f ? 4.0f : 5.0f;", 4},
        {"return s > 2.0f ? 1 : s < 1.0f ? 2 : 3;", 3},
        {"return (int)(s * 3.0f);", 4},
        {"return (int)-1.75f;", -1},
        {"return (float)7 * (float)2;", 14},
        {"return (uint)-1 > 5u;", 1},
        {"return 0x10 + 010;", 26},
        {"return 1e2f + .5f;", 100.5},
        {"int n = 3, m; m = n++; n += 2; return 10 * m + n;", 36},
        {"int n = 3; return --n - n--;", 0},
        {"float x = 0; for (int n = 0; n < 4; n++) x += n; return x;", 6},
        {"int n = 0; while (true) { n++; if (n == 3) continue; if (n > 5) break; } return n;", 6},
        {"for (int n = 0, m = 9; ; n++, m--) if (n > m) return n;", 5},
        {"if (s < 0) return 1; else if (s < 1) return 2; else { return 3; }", 3},
        {"const int x = 4; { int x = 5; x++; } return x;", 4},
        {"return p.batch + 10 * p.head + 100 * p.kv_head;", 131},
        {"return p.query + 100 * p.key + 10000 * p.queries + 1000000 * (p.keys - 29);", 1200905},
        {"return p.own_query * 10 + p.own_key;", 13},
        {"return o.two + o.half_one;", 2.5},
        {"return table_at(o, 2) + whole_at(o, o.two - 1);", -4},
        {"return table_of(o, p);", 1.5},
        {"return whole_of(o, p);", 4},
        {"return table_place(o, p) + 10 * whole_place(o, p);", 77},
        {"return fmin(s, 1.0f) + fmax(2.0f, s) + fabs(-s);", 4.5},
        {"return min(3, 5) * max(3, 5) + clamp(9, 0, 7);", 22},
        {"return abs(-3) + floor(-1.5f) + ceil(1.25f) + trunc(-1.75f) + rint(2.5f);", 4},
        {"return step(1.0f, s) + mad(s, 2.0f, 1.0f) + select(1, 2, 5);", 7},
        {"return isnan(NAN) + 2 * isinf(INFINITY) + 4 * isnan(s);", 3},
        {"return NAN > 1.0f || NAN <= 1.0f || NAN == NAN;", 0},
        {"return twice(twice(s)) + three;", 9},
        {"/* a */ return s; // b\n", 1.5},
        {"bool b = s; b = b && 7; return b;", 1},
        {"return INT_MAX + 1 == INT_MIN;", 1},
        {"s *= 2; return s, -s;", -3},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const struct bounded got =
            score_of("constant float three = 3.0f;\n"
                     "static inline float twice(const float x) { return x + x; }",
                     cases[n].body, bounded_exactly(1.5), NULL);
        cr_expect(got.value == cases[n].value && !(got.bound > 0.0), "%s: %g +- %g, not %g",
                  cases[n].body, got.value, got.bound, cases[n].value);
    }
}

/* A result that is not exact is within its bound of the double's value; the bound is some units. */
Test(reference_functions, errors) {
    static const struct {
        const char *body;
        double value, least, most; /* of the bound in units of the value */
    } cases[] = {
        {"return s / 3.0f;", 1.5 / 3.0, 1, 6},
        {"return exp(s);", 4.4816890703380648, 2, 8},
        {"return tanh(s);", 0.90514825364486644, 4, 12},
        {"return native_exp(s);", 4.4816890703380648, 4, 60},
        {"return pow(s, 2.5f);", 2.7556759606310752, 8, 40},
        {"return s * 0.1f;", 1.5 * 0.1f, 0.5, 2},
        {"return 1e8f + s - 1e8f;", 1.5, 1e7, 1e9},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const struct bounded got = score_of("", cases[n].body, bounded_exactly(1.5), NULL);
        const double unit = u * fabs(cases[n].value);
        cr_expect(fabs(got.value - cases[n].value) <= 0.01 * unit &&
                      got.bound >= cases[n].least * unit && got.bound <= cases[n].most * unit,
                  "%s: %.17g +- %g units", cases[n].body, got.value, got.bound / unit);
    }
}

/* Slopes equal differences, for the functions that tests know and for expressions. */
Test(reference_functions, slopes) {
    const struct function_pair pair = pair_here();

    for (size_t n = 0; n < 400; n++) {
        const size_t known = trial_functions(CLATTN_SCORE_FUNCTION);
        static float data[4096];
        struct function_pair here = pair;
        for (size_t d = 0; d < CLATTN_FUNCTION_OPERANDS; d++)
            here.operands[d] = data;
        const struct function_program *program = function_program_of(
            n < known ? trial_function(CLATTN_SCORE_FUNCTION, n) : random_expression(n));
        cr_assert(function_mistake(program) == NULL, "function %zu: %s", n,
                  function_mistake(program));
        for (double s = -3.3; s < 4; s += 0.7) {
            struct bounded slope, beside;
            const double step = 1e-5;
            const double high =
                function_score(program, &here, 0.0, bounded_exactly(s + step), &beside).value;
            const double low =
                function_score(program, &here, 0.0, bounded_exactly(s - step), &beside).value;
            const struct bounded middle =
                function_score(program, &here, u, bounded_exactly(s), &slope);
            const double difference = (high - low) / (2.0 * step);
            if (!isfinite(high) || fabs(high - 2.0 * middle.value + low) > 1e-8)
                continue; /* hidden, or a kink */
            cr_expect(fabs(difference - slope.value) <= 1e-6 * (1.0 + fabs(slope.value)),
                      "function %zu at %g: %.9g, by differences %.9g", n, s, slope.value,
                      difference);
            cr_expect(slope.bound < 1e-3 * (1.0 + fabs(slope.value)), "function %zu at %g: +- %g",
                      n, s, slope.bound);
        }
    }
}

/* Where errors leave a comparison open, both results count. */
Test(reference_functions, decisions) {
    const struct bounded near_one = {1.0, 1e-6};
    struct bounded slope, x;

    x = score_of("", "return s < 1.0f ? 2.0f * s : 3.0f;", near_one, &slope);
    cr_expect(fabs(x.value - 3.0) + x.bound >= 1.0 && x.bound < 1.1, "%g +- %g", x.value, x.bound);
    cr_expect(slope.bound >= 2.0 && slope.bound < 2.1, "%g +- %g", slope.value, slope.bound);
    x = score_of("", "return floor(s);", near_one, NULL);
    cr_expect(x.bound >= 1.0 && x.bound < 1.1, "%g +- %g", x.value, x.bound);
    x = score_of("", "return fabs(s - 1.0f);", near_one, &slope);
    cr_expect(x.bound < 1e-5 && slope.bound >= 2.0, "%g +- %g, slope +- %g", x.value, x.bound,
              slope.bound);
    x = score_of("", "return s > 1.0f ? -INFINITY : s;", near_one, NULL);
    cr_expect(isfinite(x.value) && x.bound > 10.0, "%g +- %g", x.value, x.bound);
    x = score_of("", "return s > 1.1f ? -INFINITY : s;", near_one, NULL);
    cr_expect(x.bound < 1e-5, "%g +- %g", x.value, x.bound);
}

/* A word that the interpreter does not know is refused with its line. */
Test(reference_functions, refusals) {
    static const struct {
        const char *source, *words;
    } cases[] = {
        {"float score(float s, pair p, operands o)\n{ return s + unknown; }",
         "line 2: an unknown name"},
        {"float score(float s, pair p, operands o)\n{\n return foo(s); }",
         "line 3: a function that is not known"},
        {"float score(float s, pair p, operands o)\n{ return exp(s, s); }", "too few or too many"},
        {"float score(float s, pair p, operands o)\n{ return p.width; }", "no such member"},
        {"float score(float s, pair p, operands o)\n{ return s }", "';' is missing"},
        {"float score(float s, pair p, operands o)\n{ 1 = 2; return s; }", "only variables"},
        {"#define X 1\nfloat score(float s, pair p, operands o) { return X; }",
         "line 1: only #pragma clattn"},
        {"float4 f(float x) { return x; }\nfloat score(float s, pair p, operands o) { return s; }",
         "line 1: a definition"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const char *mistake = function_mistake(read(cases[n].source));
        cr_expect(mistake && strstr(mistake, cases[n].words), "'%s': %s", cases[n].source,
                  mistake ? mistake : "read");
    }
}

/* The functions of the library can be judged. */
Test(reference_functions, library) {
    static const char *const names[] = {
        "alibi",   "dilated",        "documents", "draft_tree", "neighborhood", "prefix_lm",  "sam",
        "softcap", "sliding_window", "swin",      "t5",         "t5_decoder",   "temperature"};

    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const clattn_function *f;
        cr_assert(clattn_function_read(names[n], &f, NULL, 0) == CLATTN_SUCCESS, "%s", names[n]);
        const char *mistake = function_mistake(function_program_of(f));
        cr_expect(mistake == NULL, "%s: %s", names[n], mistake);
    }
}
