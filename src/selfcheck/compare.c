/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing results with right answers. */
#include "base/log.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The worst element so far. */
struct worst {
    double error; /* error divided by its bound */
    const struct ca_answer *answer;
    size_t last;
    double got;
};

static double over_bound(double got, struct ca_bounded want)
{
    if (got == want.value || (isnan(got) && isnan(want.value)))
        return 0.0;
    const double error = fabs(got - want.value) / want.bound; /* infinite if the bound is 0 */
    return error < CA_TRUST_WORST ? error : CA_TRUST_WORST;   /* a NaN is as bad */
}

static int shows_hidden(const struct ca_trust_case *c)
{
    return ca_is_attention(&c->problem) &&
           (c->problem.scores == CLATTN_SCORES_RAW || c->problem.scores == CLATTN_SCORES_SOFTCAP);
}

/* Element `place` of a result. */
static double result_at(const struct ca_trust_case *c, unsigned argument, size_t place)
{
    const unsigned char *bytes = ca_trust_elements(c, argument);
    cl_int number;

    if (c->problem.operation == CLATTN_INDEXER && argument == CA_INDEXER_TOPK_INDICES) {
        memcpy(&number, bytes + place * sizeof number, sizeof number);
        return number;
    }
    const clattn_cache cache = ca_problem_cache(&c->problem, argument);
    const clattn_dtype dtype = ca_problem_dtype(&c->problem, argument);
    double values[CA_BLOCK];

    if (cache == CLATTN_CACHE_PLAIN)
        return ca_value_load(bytes, dtype, place);
    ca_cache_load(bytes, cache, dtype, place / CA_BLOCK * CA_BLOCK, 1, CA_BLOCK, values);
    return values[place % CA_BLOCK];
}

static void compare(const struct ca_trust_case *c, const struct ca_answer *answer,
                    struct worst *worst)
{
    for (size_t d = 0; answer->want && d < answer->count; d++) {
        const double got = result_at(c, answer->argument, answer->first + d * answer->step);
        const double error = over_bound(got, answer->want[d]);
        /* Raw scores of hidden values may overflow f32. */
        if (shows_hidden(c) && answer->argument == CA_SCORES &&
            !(fabs(answer->want[d].value) < 1e20))
            continue;
        if (error > worst->error)
            *worst = (struct worst){error, answer, d, got};
    }
}

static void describe(const struct worst *worst, const char *name, char *text, size_t text_bytes)
{
    const size_t *at = worst->answer->at;
    const struct ca_bounded want = worst->answer->want[worst->last];

    if (isnan(worst->got))
        ca_reason(text, text_bytes, "%s(%zu, %zu, %zu, %zu) is NaN or was not written", name, at[0],
                  at[1], at[2], worst->last);
    else
        ca_reason(text, text_bytes, "%s(%zu, %zu, %zu, %zu) is %.7g, should be %.7g within %.2g",
                  name, at[0], at[1], at[2], worst->last, worst->got, want.value, want.bound);
}

/* ---- what is written elsewhere --------------------------------------------------------------- */

/* For an append: replaces each row that is written by its previous contents; then nothing may
 * differ. */
static int others_intact(const struct ca_trust_case *c, unsigned to, const struct ca_tensor *t)
{
    const int plain = ca_problem_cache(&c->problem, to) == CLATTN_CACHE_PLAIN;
    const size_t bytes = t->element_bytes, guard = ca_trust_guard(&c->problem, to);
    const size_t together = plain ? 1 : CA_BLOCK;
    unsigned char *rest = malloc(c->sizes[to]);
    int intact = rest != NULL;

    if (!rest)
        return 0;
    memcpy(rest, c->bytes[to], c->sizes[to]);
    for (size_t n = 0; n < c->num_answers; n++) {
        const struct ca_answer *answer = &c->answers[n];
        for (size_t d = 0; answer->argument == to && d < answer->count; d += together) {
            const size_t at = guard + (answer->first + d * answer->step) / together * bytes;
            if (c->before[to])
                memcpy(rest + at, c->before[to] + at, bytes);
            else
                memset(rest + at, CA_TRUST_FILL, bytes);
        }
    }
    for (size_t n = 0; n < c->sizes[to] && intact; n++)
        intact = rest[n] == (c->before[to] ? c->before[to][n] : CA_TRUST_FILL);
    free(rest);
    return intact;
}

static int guards_intact(const unsigned char *bytes, size_t size)
{
    for (size_t n = 0; n < CA_TRUST_GUARD; n++)
        if (bytes[n] != CA_TRUST_FILL || bytes[size - 1 - n] != CA_TRUST_FILL)
            return 0;
    return 1;
}

/* Returns whether something was written between the elements. */
static int gaps_intact(const struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t)
{
    const unsigned char *bytes = c->bytes[argument] + CA_TRUST_GUARD;
    const size_t count = (c->sizes[argument] - 2 * CA_TRUST_GUARD) / t->element_bytes;

    for (size_t n = 0; n < count; n++)
        if (bytes[n * t->element_bytes] != CA_TRUST_FILL &&
            !ca_layout_holds(&t->layout, t->sizes, n))
            return 0;
    return 1;
}

/* No result is a NaN, as no visible number is one; an element that was not written is. Scores that
 * show what is hidden are left out. */
static int find_nan(const struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                    char *text, size_t text_bytes)
{
    const clattn_dtype dtype = ca_problem_dtype(&c->problem, argument);

    if (c->problem.total_q > c->problem.batch * c->problem.seq_q ||
        c->problem.total_kv > c->problem.batch * c->problem.seq_kv)
        return 0; /* rows of no sequence keep their contents */
    for (size_t b = 0; b < t->sizes[0]; b++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                const size_t first =
                    b * t->layout.stride[0] + h * t->layout.stride[1] + s * t->layout.stride[2];
                const size_t d = ca_values_find_nan(c->bytes[argument] + CA_TRUST_GUARD, dtype,
                                                    first, t->layout.stride[3], t->sizes[3]);
                if (d < t->sizes[3]) {
                    ca_reason(text, text_bytes, "%s(%zu, %zu, %zu, %zu) is NaN or was not written",
                              t->name, b, h, s, d);
                    return 1;
                }
            }
    return 0;
}

const char *ca_trust_case_judge(const struct ca_trust_case *c, double *error, char *text,
                                size_t text_bytes)
{
    const int appends = c->problem.operation == CLATTN_APPEND;
    struct ca_tensor tensors[CA_WORKSPACE];
    struct worst worst = {.error = 0.0};

    for (size_t n = 0; n < c->num_answers; n++)
        compare(c, &c->answers[n], &worst);
    *error = worst.error;
    ca_problem_tensors(&c->problem, tensors);
    for (unsigned out = 0; out < CA_WORKSPACE; out++) {
        if (!tensors[out].written || !c->bytes[out])
            continue;
        if (appends && !others_intact(c, out, &tensors[out])) {
            ca_reason(text, text_bytes, "it writes to other rows of %s than the tokens'",
                      tensors[out].name);
            return text;
        }
        if (!appends && (!guards_intact(c->bytes[out], c->sizes[out]) ||
                         (c->hostile && !gaps_intact(c, out, &tensors[out])))) {
            ca_reason(text, text_bytes, "it writes outside of its output %s", tensors[out].name);
            return text;
        }
    }
    if (worst.error > 1.0) {
        const unsigned argument = worst.answer->argument;
        const int of_scores = ca_is_attention(&c->problem) && argument == CA_SCORES;
        describe(&worst, of_scores ? "score" : tensors[argument].name, text, text_bytes);
        return text;
    }
    if (appends || c->problem.operation == CLATTN_INDEXER ||
        (!ca_is_attention(&c->problem) && c->hostile))
        return NULL; /* other rows stay as they were; every element was judged, and some are NaN */
    for (unsigned out = 0; out < CA_WORKSPACE; out++) {
        if (tensors[out].written && c->bytes[out] && !(out == CA_SCORES && shows_hidden(c)) &&
            find_nan(c, out, &tensors[out], text, text_bytes))
            return text;
    }
    return NULL;
}
