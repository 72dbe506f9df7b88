/* SPDX-License-Identifier: Apache-2.0 */
/* The self-check of appends and merges: right answers are trusted, and wrong ones are found. No
 * device. */
#include "problem/tensors.h"
#include "tests/support/judged_case.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(serving_trust, .timeout = 60);

static const char *const appends[] = {
    "append f32 b2 h4/2 q5 k20 d64/40 klen",
    "append f16 b2 h4/2 q5 k20 d48 cache=bf16 slots pos rope=halves:32:10000 queries",
    ("append f32 b3 h4/2 q7 k30 d64 cache=f16 page=4 pages=30 klen rope=pairs:64:500000 "
     "queries=inplace"),
    "append bf16 b2 h2/2 q5 k20 d33/7 page=8 pages=9 slots",
    "append f32 b2 h4/2 q5 k20 d64 pos klen rope=halves:64:tables:90 queries",
};

static const char *const merges[] = {
    "merge f32 b2 h3 q5 d20 n3",
    "merge f16 b2 h3 q5 d20 n3 accumulate",
    "merge bf16 b1 h2 q9 d40 n2 parts=bshd o=sbhd",
    "merge f32 b2 h3 q5 d20 n3 sinks accumulate",
};

/* Finds faults in one element of a result, and beside all of them. */
static void expect_faults_found(struct ca_trust_case *c, unsigned output, clattn_dtype dtype,
                                size_t place, const char *text)
{
    unsigned char *y = c->bytes[output] + CA_TRUST_GUARD;
    const double value = value_get(dtype, y, place);

    value_set(dtype, y, place, value * 1.02 + 0.02);
    judged_wrong(c, text, "should be");
    value_set(dtype, y, place, NAN);
    judged_wrong(c, text, "");
    value_set(dtype, y, place, value);
    judged_right(c, text);
    y[-1] ^= 0x55;
    judged_wrong(c, text, "");
    y[-1] ^= 0x55;
    y[c->sizes[output] - 2 * CA_TRUST_GUARD] ^= 0x55;
    judged_wrong(c, text, "");
    y[c->sizes[output] - 2 * CA_TRUST_GUARD] ^= 0x55;
    judged_right(c, text);
}

/* The place of an element that is judged and a number, the second of its row where there are so many. */
static size_t judged_place(const struct ca_trust_case *c, unsigned output)
{
    size_t place = SIZE_MAX;

    for (size_t n = 0; n < c->num_answers; n++) {
        const struct ca_answer *a = &c->answers[n];
        const size_t d = a->count > 1;
        if (a->argument == output && a->want && isfinite(a->want[d].value))
            place = a->first + d * a->step;
    }
    cr_assert(place < SIZE_MAX);
    return place;
}

static void expect_found(const char *text, int hostile, const unsigned *outputs, size_t count)
{
    struct ca_trust_case c = judged_case(text, hostile);

    judged_compute(&c);
    judged_right(&c, text);
    for (size_t n = 0; n < count; n++)
        if (c.bytes[outputs[n]])
            expect_faults_found(&c, outputs[n], ca_problem_dtype(&c.problem, outputs[n]),
                                judged_place(&c, outputs[n]), text);
    ca_trust_case_free(&c);
}

Test(serving_trust, appends) {
    static const unsigned outputs[] = {CA_APPEND_K_CACHE, CA_APPEND_V_CACHE, CA_APPEND_Q_OUT};

    for (size_t n = 0; n < 2 * (sizeof appends / sizeof *appends); n++)
        expect_found(appends[n / 2], n % 2, outputs, 3);
}

Test(serving_trust, double_backward) {
    static const unsigned outputs[] = {CA_DOUBLE_BACKWARD_GQ, CA_DOUBLE_BACKWARD_GK,
                                       CA_DOUBLE_BACKWARD_GV, CA_DOUBLE_BACKWARD_GDO};

    expect_found("bwd2 f32 b2 h4/2 q9 k11 d8/5 causal=br qlen klen", 1, outputs, 4);
    expect_found("bwd2 f16 b1 h2 q9 k11 d8 window=3,2 ggk=none", 0, outputs, 2);
}

/* Finds an entry of a list that is another key, or that was not written. */
static void expect_entries_found(const char *text, int hostile)
{
    struct ca_trust_case c = judged_case(text, hostile);
    cl_int *lists = (cl_int *)(void *)(c.bytes[CA_INDEXER_TOPK_INDICES] + CA_TRUST_GUARD);

    judged_compute(&c);
    judged_right(&c, text);
    const size_t place = judged_place(&c, CA_INDEXER_TOPK_INDICES);
    lists[place] += 1;
    judged_wrong(&c, text, "should be");
    lists[place] = -2;
    judged_wrong(&c, text, "should be");
    ca_trust_case_free(&c);
}

Test(serving_trust, indexers) {
    static const unsigned scores[] = {CA_INDEXER_SCORES};
    static const char *const problems[] = {
        "indexer f32 b2 h3 q4 k70 d8 topk=5 causal=br qlen klen page=16 scores",
        "indexer f16 b2 h3 q4 k70 d8 topk=5 totalq=7 totalkv=90 scores"};

    for (int n = 0; n < 4; n++) {
        expect_found(problems[n / 2], n % 2, scores, 1);
        expect_entries_found(problems[n / 2], n % 2);
    }
    static const unsigned gradients[] = {CA_INDEXER_DQ, CA_INDEXER_DK, CA_INDEXER_DW};
    for (int n = 0; n < 2; n++)
        expect_found("indexer f16 b2 h3 q4 k70 d8 topk=5 causal=br qlen totalkv=90 gradients", n,
                     gradients, 3);
}

Test(serving_trust, merges) {
    static const unsigned outputs[] = {CA_MERGE_O, CA_MERGE_LSE};

    for (size_t n = 0; n < 2 * (sizeof merges / sizeof *merges); n++)
        expect_found(merges[n / 2], n % 2, outputs, 2);
}
