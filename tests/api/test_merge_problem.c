/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of merges: their text form, what is refused, operations, classes. No device. */
#include "problem/classes/problem_class.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

#include <criterion/criterion.h>
#include <string.h>

Test(merge_problem, what_is_printed) {
    static const char *const canonical[] = {
        "merge f32 b1 h32 q1 d128 n4",
        "merge f16 b2 h3 q5 d7 n2 parts=bshd o=sbhd",
        "merge bf16 b0 h3 q5 d7 n0 parts=90.40.8.1 accumulate",
        "merge f32 b2 h3 q5 d7 n2 sinks accumulate",
    };

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
    const clattn_problem p = fixture_problem("n3 merge layout=bshd d8 f16 h2 q3");
    cr_expect_str_eq(problem_printed(&p), "merge f16 b1 h2 q3 d8 n3 parts=bshd o=bshd");
    cr_expect(p.merge.states == 3 && p.merge.heads == 2 && p.operation == CLATTN_MERGE);
}

Test(merge_problem, words_that_are_refused) {
    static const struct refused_text cases[] = {
        {"merge f32 q1 d8", "nN is missing"},
        {"merge q1 d8 n2", "a dtype, f32, f16 or bf16, is missing"},
        {"merge f32 q1 d8 n2 k4", "'k' is not a word of merges"},
        {"merge f32 q1 d8 n2 causal=tl", "'causal=' is not a word of merges"},
        {"merge f32 q1 d8 n2 lse", "'lse' is not a word of merges"},
        {"proj f32 q1 d8 sinks", "'sinks' is not a word of projections"},
        {"merge f32 q1 d8 n2 x=bshd", "'x=' is not a word of merges"},
        {"fwd f32 q1 d8 n2", "'n' is not a word of forward"},
        {"bwd f32 q1 d8 parts=bshd", "'parts=' is not a word of backward"},
        {"proj f32 q1 d8 n2", "'n' is not a word of projections"},
        {"merge fwd f32 q1 d8 n2", "two operations are given"},
        {"merge f32 h4/2 q1 d8 n2", "'h4/2' has a value that cannot be read"},
        {"merge f32 q1 d8/4 n2", "'d8/4' has a value that cannot be read"},
        {"merge f32 q2 d8 n2 o=16.8.0.1 h2", "elements of o share places"},
        {"merge f32 b9999999999999 q1 d8 n9999999999999", "all states' batches, is over"},
    };

    problem_texts_refused(cases, sizeof cases / sizeof *cases);
}

#define REFUSED(change, words) PROBLEM_REFUSED("merge f32 q1 d8 n2", change, words)

/* Options of attention are none of merges. */
Test(merge_problem, options_that_are_refused) {
    REFUSED(p.bias = 1, "a merge has no bias");
    REFUSED(p.mask = 1, "a merge has no mask");
    REFUSED(p.alibi = 1, "a merge has no alibi");
    REFUSED(p.lse = 1, "a merge has no lse");
    REFUSED(p.scale = 1.0f, "a merge has no scale");
    REFUSED(p.causal = 1, "a merge has no causal");
    REFUSED(p.scores = CLATTN_SCORES_RAW, "a merge has no scores");
    REFUSED(p.dropout = 0.5f, "a merge has no dropout");
    REFUSED(p.k_cache = CLATTN_CACHE_Q8_0, "a merge has no k_cache");
    REFUSED(p.dsinks = 1, "a merge has no dsinks");
    REFUSED(p.seq_q = 2, "a merge has no seq_q");
    REFUSED(p.q.stride[3] = 1, "a merge has no q");
    REFUSED(p.merge.dim = 0, "dim is 0");
}

Test(merge_problem, operations) {
    const clattn_problem p = fixture_problem("merge f32 b2 h3 q5 d8 n4");

    cr_expect(clattn_problem_flops(&p) == 2.0 * 4 * 2 * 3 * 5 * 8);
}

/* Sizes are rounded but for dim; a class is its own. */
Test(merge_problem, classes) {
    static const struct problem_and_class cases[] = {
        {"merge f32 b2 h12 q5 d100 n3", "merge f32 b1 h1 q128 d100 n4"},
        {"merge f16 b1 h1 q1 d64 n1000 parts=bshd accumulate",
         "merge f16 b1 h1 q1 d64 n64 accumulate"},
        {"merge f32 h2 q3 d8 n2 parts=96.48.16.2", "merge f32 b1 h1 q8 d8 n2 parts=128.128.16.2"},
        {"merge f32 h2 q3 d8 n2 sinks", "merge f32 b1 h1 q8 d8 n2 sinks"},
        {"merge f32 h2 q3 d281474976710656 n2", "merge f32 b1 h1 q8 d281474976710656 n2"},
    };

    problem_classes_exact(cases, sizeof cases / sizeof *cases);
    const clattn_problem a = fixture_problem("merge f32 h1 q64 d64 n4");
    const clattn_problem b = fixture_problem("merge f32 h1 q128 d64 n4");
    const clattn_problem c = fixture_problem("merge f32 h1 q64 d128 n4");
    const clattn_problem forward = fixture_problem("fwd f32 h1 q64 k4 d64");
    cr_expect(ca_class_distance(&a, &b) > 0.0);
    cr_expect(ca_class_distance(&a, &b) < ca_class_distance(&a, &c));
    cr_expect(ca_class_distance(&a, &forward) > 1e9);
}
