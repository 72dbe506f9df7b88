/* SPDX-License-Identifier: Apache-2.0 */
/* Random score functions: a sequence of variables, each an operation of those before it, with
 * its derivative beside it. Half of those that the library can derive leave the derivative out.
 * All operations keep numbers small, so that a softmax can take every score that is drawn. */
#include "problem/function.h"
#include "tests/trials/random_function.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 8192, MOST_VARIABLES = 12 };

/* Statements of score() and of score_derivative(), which has those of score() too. */
struct text {
    char value[BYTES], slope[BYTES];
    size_t value_length, slope_length;
};

static void put(char *text, size_t *length, const char *format, va_list arguments)
{
    const int count = vsnprintf(text + *length, BYTES - *length, format, arguments);

    if (count < 0 || *length + (size_t)count >= BYTES)
        abort();
    *length += (size_t)count;
}

/* To both. */
static void put_value(struct text *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    put(t->value, &t->value_length, format, arguments);
    va_end(arguments);
    va_start(arguments, format);
    put(t->slope, &t->slope_length, format, arguments);
    va_end(arguments);
}

static void put_slope(struct text *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    put(t->slope, &t->slope_length, format, arguments);
    va_end(arguments);
}

/* A whole number of the pair that every device computes alike. */
static void put_whole(struct text *t, struct rng *r, size_t n)
{
    static const char *const wholes[] = {
        "p.key - p.query",
        "p.key % 7 + p.head",
        "(p.query >> 2) ^ (p.key & 5)",
        "max(p.key - p.query, -9) * (p.batch + 1)",
        "tilt_of(o, p) + o.shift",
        "abs(p.query - p.key) / (1 + o.shift)",
        "p.keys - p.key < 5 ? 3 : p.kv_head",
        "(int)(o.gain * 3.0f) - (p.key | 1) % 4",
    };

    put_value(t, "    const int i%zu = %s;\n", n, wholes[rng_below(r, 8)]);
}

/* A float that does not depend on s. */
static void put_constant(struct text *t, struct rng *r, size_t n)
{
    static const char *const floats[] = {"table_at(o, (p.key * 5 + p.query + p.head) & 31)",
                                         "o.gain", "lift_of(o, p)", "-1.25f"};

    switch (rng_below(r, 7)) {
    case 0:
        put_value(t, "    const float x%zu = tanh(0.25f * (float)i%zu);\n", n, n);
        break;
    case 1:
        put_value(t, "    const float x%zu = 1.0f / (1.0f + (float)(i%zu * i%zu));\n", n, n, n);
        break;
    case 2:
        put_value(t, "    const float x%zu = i%zu %% 2 == 0 ? -0.75f : o.gain;\n", n, n);
        break;
    default:
        put_value(t, "    const float x%zu = %s;\n", n, floats[rng_below(r, 4)]);
    }
    put_slope(t, "    const float d%zu = 0.0f;\n", n);
}

/* A function of one variable. */
static void put_one(struct text *t, struct rng *r, size_t n, size_t a)
{
    switch (rng_below(r, 8)) {
    case 0:
        put_value(t, "    const float x%zu = tanh(x%zu);\n", n, a);
        put_slope(t, "    const float d%zu = d%zu * (1.0f - x%zu * x%zu);\n", n, a, n, n);
        break;
    case 1:
        put_value(t, "    const float x%zu = exp(-fabs(x%zu));\n", n, a);
        put_slope(t, "    const float d%zu = x%zu < 0.0f ? d%zu * x%zu : -d%zu * x%zu;\n", n, a, a,
                  n, a, n);
        break;
    case 2:
        put_value(t, "    const float x%zu = sqrt(1.0f + x%zu * x%zu);\n", n, a, a);
        put_slope(t, "    const float d%zu = d%zu * x%zu / x%zu;\n", n, a, a, n);
        break;
    case 3:
        put_value(t, "    const float x%zu = log(1.5f + x%zu * x%zu);\n", n, a, a);
        put_slope(t, "    const float d%zu = 2.0f * x%zu * d%zu / (1.5f + x%zu * x%zu);\n", n, a, a,
                  a, a);
        break;
    case 4:
        put_value(t, "    const float x%zu = 1.0f / (1.0f + x%zu * x%zu);\n", n, a, a);
        put_slope(t, "    const float d%zu = -2.0f * x%zu * d%zu * x%zu * x%zu;\n", n, a, a, n, n);
        break;
    case 5:
        put_value(t, "    const float x%zu = clamp(x%zu, -1.5f, 0.75f);\n", n, a);
        put_slope(t, "    const float d%zu = x%zu < -1.5f || x%zu > 0.75f ? 0.0f : d%zu;\n", n, a,
                  a, a);
        break;
    case 6:
        put_value(t, "    float x%zu = x%zu;\n    if (i%zu > 1)\n        x%zu = -0.5f * x%zu;\n", n,
                  a, n, n, a);
        put_slope(t, "    const float d%zu = i%zu > 1 ? -0.5f * d%zu : d%zu;\n", n, n, a, a);
        break;
    default:
        put_value(t,
                  "    float x%zu = x%zu;\n    for (int n = 0; n < 3; n++)\n        x%zu = 0.5f * "
                  "x%zu + 0.125f;\n",
                  n, a, n, n);
        put_slope(t, "    const float d%zu = 0.125f * d%zu;\n", n, a);
    }
}

/* A function of two. */
static void put_two(struct text *t, struct rng *r, size_t n, size_t a, size_t b)
{
    switch (rng_below(r, 6)) {
    case 0:
        put_value(t, "    const float x%zu = 0.5f * x%zu + x%zu;\n", n, a, b);
        put_slope(t, "    const float d%zu = 0.5f * d%zu + d%zu;\n", n, a, b);
        break;
    case 1:
        put_value(t, "    const float x%zu = x%zu - 0.25f * x%zu;\n", n, a, b);
        put_slope(t, "    const float d%zu = d%zu - 0.25f * d%zu;\n", n, a, b);
        break;
    case 2:
        put_value(t, "    const float x%zu = fmin(x%zu, x%zu);\n", n, a, b);
        put_slope(t, "    const float d%zu = x%zu < x%zu ? d%zu : d%zu;\n", n, a, b, a, b);
        break;
    case 3:
        put_value(t, "    const float x%zu = fmax(x%zu, x%zu + 0.0625f);\n", n, a, b);
        put_slope(t, "    const float d%zu = x%zu < x%zu + 0.0625f ? d%zu : d%zu;\n", n, a, b, b,
                  a);
        break;
    case 4:
        put_value(t, "    const float y%zu = tanh(x%zu), x%zu = y%zu * x%zu;\n", n, a, n, n, b);
        put_slope(t, "    const float d%zu = d%zu * (1.0f - y%zu * y%zu) * x%zu + y%zu * d%zu;\n",
                  n, a, n, n, b, n, b);
        break;
    default:
        put_value(t, "    const float x%zu = (i%zu & 1) == 0 ? x%zu : x%zu;\n", n, n, a, b);
        put_slope(t, "    const float d%zu = (i%zu & 1) == 0 ? d%zu : d%zu;\n", n, n, a, b);
    }
}

const clattn_function *random_expression(uint64_t seed)
{
    static const char declarations[] = "#pragma clattn operand float table[32]\n"
                                       "#pragma clattn operand char tilt[h]\n"
                                       "#pragma clattn operand half lift[q][b]\n"
                                       "#pragma clattn parameter float gain = 0.5\n"
                                       "#pragma clattn parameter int shift = 2\n";
    struct rng r = rng_seed(seed);
    struct text t = {.value_length = 0};
    const size_t count = 2 + rng_below(&r, MOST_VARIABLES - 1);
    static char source[3 * BYTES];
    const clattn_function *f = NULL;
    char name[64], reason[256];

    put_value(&t, "    const float x0 = s;\n");
    put_slope(&t, "    const float d0 = 1.0f;\n");
    for (size_t n = 1; n < count; n++) {
        const size_t a = rng_one_in(&r, 2) ? n - 1 : rng_below(&r, n), b = rng_below(&r, n);
        put_whole(&t, &r, n);
        if (rng_one_in(&r, 4))
            put_constant(&t, &r, n);
        else if (rng_one_in(&r, 2))
            put_one(&t, &r, n, a);
        else
            put_two(&t, &r, n, a, b);
    }
    snprintf(name, sizeof name, "trial/expression-%llu", (unsigned long long)seed);
    const int length = snprintf(
        source, sizeof source,
        "%sfloat score(float s, pair p, operands o)\n{\n%s    return 0.5f * s + x%zu;\n}\n",
        declarations, t.value, count - 1);
    if (rng_one_in(&r, 2) && clattn_function_create(name, source, &f, NULL, 0) == CLATTN_SUCCESS &&
        f->has_derivative)
        return f;
    snprintf(
        source + length, sizeof source - (size_t)length,
        "float score_derivative(float s, pair p, operands o)\n{\n%s    return 0.5f + d%zu;\n}\n",
        t.slope, count - 1);
    if (clattn_function_create(name, source, &f, reason, sizeof reason) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s\n%s", reason, source);
        abort();
    }
    return f;
}
