/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/random_function.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct known {
    const char *name, *source;
};

#define OF_ONE "float score_derivative(float s, pair p, operands o) { return 1.0f; }\n"

static const struct known scores[] = {
    {"identity", "float score(float s, pair p, operands o) { return s; }\n" OF_ONE},
    {"slopes", "#pragma clattn operand float slopes[h]\n"
               "float score(float s, pair p, operands o)\n"
               "{ return s + slopes_of(o, p) * (float)(p.key - p.query); }\n" OF_ONE},
    {"cap", "#pragma clattn parameter float cap = 1.5\n"
            "float score(float s, pair p, operands o) { return o.cap * tanh(s / o.cap); }\n"
            "float score_derivative(float s, pair p, operands o)\n"
            "{ const float t = tanh(s / o.cap); return 1.0f - t * t; }\n"},
    {"buckets", "#pragma clattn operand half table[2][16]\n"
                "#pragma clattn parameter int offset = 1\n"
                "static int bucket(int distance, operands o)\n"
                "{\n"
                "    const int far = min((int)abs(distance) + o.offset, 15);\n"
                "    return distance > 0 ? 16 + far : far;\n"
                "}\n"
                "float score(float s, pair p, operands o)\n"
                "{ return s + table_at(o, bucket(p.key - p.query, o)); }\n" OF_ONE
                "int table_index(float s, pair p, operands o)\n"
                "{ return bucket(p.key - p.query, o); }\n"
                "float table_derivative(float s, pair p, operands o) { return 1.0f; }\n"},
    {"bent", "#pragma clattn parameter float below = 0.5\n"
             "#pragma clattn parameter float above = 1.5\n"
             "float score(float s, pair p, operands o)\n"
             "{\n"
             "    if (s < 0.25f) return s * o.below;\n"
             "    else return 0.25f * o.below + (s - 0.25f) * o.above;\n"
             "}\n"
             "float score_derivative(float s, pair p, operands o)\n"
             "{ return s < 0.25f ? o.below : o.above; }\n"},
    {"hidden", "float score(float s, pair p, operands o)\n"
               "{ return (p.key + 2 * p.query + p.head) % 3 == 0 ? -INFINITY : s; }\n" OF_ONE},
    {"far", "#pragma clattn operand float fall[h][4]\n"
            "#pragma clattn parameter int reach = 9\n"
            "float score(float s, pair p, operands o)\n"
            "{\n"
            "    const int apart = abs(p.query - p.key);\n"
            "    if (apart > 4 * o.reach)\n"
            "        return -INFINITY;\n"
            "    float x = 0.25f * fall_at(o, 4 * p.own_head + apart % 4) + s;\n"
            "    if (p.key - p.query > 0)\n"
            "        x -= 0.125f;\n"
            "    return x;\n"
            "}\n"},
    {"positions",
     "#pragma clattn operand int where[b][k]\n"
     "#pragma clattn operand uchar kind[g]\n"
     "#pragma clattn operand char tilt[h][q]\n"
     "#pragma clattn operand bfloat lift[k][q]\n"
     "float score(float s, pair p, operands o)\n"
     "{\n"
     "    return s + 0.125f * (float)(where_of(o, p) - kind_of(o, p) * tilt_of(o, p)) +\n"
     "           lift_of(o, p);\n"
     "}\n" OF_ONE},
    {"curved", "#pragma clattn parameter int steps = 2\n"
               "#pragma clattn parameter float rate = 0.5\n"
               "static float damp(float x) { return x / sqrt(1.0f + x * x); }\n"
               "static float slope(float x)\n"
               "{ const float r = 1.0f / sqrt(1.0f + x * x); return r * r * r; }\n"
               "float score(float s, pair p, operands o)\n"
               "{\n"
               "    float x = s;\n"
               "    for (int n = 0; n < o.steps % 4; n++)\n"
               "        x += o.rate * damp(x) + 0.0625f;\n"
               "    return x + exp(-fabs(s)) * log(2.0f + fabs(s));\n"
               "}\n"
               "float score_derivative(float s, pair p, operands o)\n"
               "{\n"
               "    float x = s, d = 1.0f;\n"
               "    for (int n = 0; n < o.steps % 4; n++) {\n"
               "        d *= 1.0f + o.rate * slope(x);\n"
               "        x += o.rate * damp(x) + 0.0625f;\n"
               "    }\n"
               "    const float e = exp(-fabs(s)), far = 2.0f + fabs(s);\n"
               "    return d + (s < 0.0f ? e * log(far) - e / far : e / far - e * log(far));\n"
               "}\n"},
    {"rows", "#pragma clattn operand float lift[b][3][h][q][2]\n"
             "float score(float s, pair p, operands o)\n"
             "{ return s + lift_at(o, lift_place(o, p) + p.key % 2); }\n" OF_ONE},
    {"sizes", "float score(float s, pair p, operands o)\n"
              "{\n"
              "    const float whole = (float)(p.queries + 2 * p.keys);\n"
              "    return s + (float)(p.batch - p.kv_head) / whole + (float)p.key / whole;\n"
              "}\n" OF_ONE},
};

static const struct known masks[] = {
    {"window", "#pragma clattn parameter int before = 5\n"
               "#pragma clattn parameter int after = 2\n"
               "bool visible(pair p, operands o)\n"
               "{ return p.key <= p.query + o.after && p.query - p.key <= 4 * o.before; }\n"},
    {"documents", "#pragma clattn operand uchar of_query[b][q]\n"
                  "#pragma clattn operand int of_key[b][k]\n"
                  "bool visible(pair p, operands o)\n"
                  "{ return of_query_of(o, p) / 2 == of_key_of(o, p) / 2; }\n"},
    {"prefix", "#pragma clattn parameter int prefix = 7\n"
               "bool visible(pair p, operands o)\n"
               "{ return p.key < o.prefix || p.key <= p.query; }\n"},
    {"dilated", "bool visible(pair p, operands o)\n"
                "{\n"
                "    const int distance = p.query - p.key;\n"
                "    return (distance >= 0 ? distance : -distance) % 3 == p.head % 2;\n"
                "}\n"},
    {"levels", "#pragma clattn operand float level[q][k]\n"
               "#pragma clattn parameter float least = 0.5\n"
               "bool visible(pair p, operands o) { return level_of(o, p) + 1.0f > o.least; }\n"},
    {"everything", "bool visible(pair p, operands o) { return true; }\n"},
    {"nothing", "bool visible(pair p, operands o) { return p.key == -1; }\n"},
    {"last", "#pragma clattn parameter int count = 9\n"
             "bool visible(pair p, operands o)\n"
             "{ return p.key >= p.keys - 8 * o.count - 1 && p.query < p.queries + p.batch; }\n"},
};

static const clattn_function *make(const char *name, const char *source)
{
    const clattn_function *f = NULL;
    char whole[64], reason[256];

    snprintf(whole, sizeof whole, "trial/%s", name);
    if (clattn_function_create(whole, source, &f, reason, sizeof reason) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s\n", reason);
        abort();
    }
    return f;
}

size_t trial_functions(clattn_function_kind kind)
{
    return kind == CLATTN_SCORE_FUNCTION ? sizeof scores / sizeof *scores
                                         : sizeof masks / sizeof *masks;
}

const clattn_function *trial_function(clattn_function_kind kind, size_t n)
{
    const struct known *known = kind == CLATTN_SCORE_FUNCTION ? scores : masks;

    return make(known[n].name, known[n].source);
}

static const clattn_function *any_function(struct rng *r, clattn_function_kind kind)
{
    if (kind == CLATTN_SCORE_FUNCTION && rng_one_in(r, 2))
        return random_expression(rng_below(r, 100000));
    return trial_function(kind, rng_below(r, trial_functions(kind)));
}

void random_functions(struct rng *r, clattn_problem *p)
{
    const int maps = p->score_function != NULL, hides = p->mask_function != NULL;

    do {
        if (maps)
            p->score_function = any_function(r, CLATTN_SCORE_FUNCTION);
        if (hides)
            p->mask_function = any_function(r, CLATTN_MASK_FUNCTION);
    } while ((maps || hides) && clattn_problem_check(p, NULL, 0) != CLATTN_SUCCESS);
}

void random_functions_of_some(struct rng *r, clattn_problem *p)
{
    p->score_function = rng_one_in(r, 4) ? trial_function(CLATTN_SCORE_FUNCTION, 0) : NULL;
    p->mask_function = rng_one_in(r, 4) ? trial_function(CLATTN_MASK_FUNCTION, 0) : NULL;
    p->dfunction = p->operation == CLATTN_BACKWARD && p->score_function && rng_one_in(r, 2);
    random_functions(r, p);
}

void trial_functions_named(const char *problem)
{
    static const char expression[] = "trial/expression-";

    for (int kind = CLATTN_SCORE_FUNCTION; kind <= CLATTN_MASK_FUNCTION; kind++)
        for (size_t n = 0; n < trial_functions((clattn_function_kind)kind); n++)
            trial_function((clattn_function_kind)kind, n);
    for (const char *at = problem; (at = strstr(at, expression)) != NULL;) {
        at += sizeof expression - 1;
        random_expression(strtoull(at, NULL, 10));
    }
}
