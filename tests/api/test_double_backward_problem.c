/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of double backward: their text form, what is refused, operations, classes. No device. */
#include "problem/classes/problem_class.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(double_backward_problem, what_is_printed) {
    static const char *const canonical[] = {
        "bwd2 f32 b2 h8/2 q512 k512 d64",
        "bwd2 f16 b1 h2 q5 k7 d8/4 q=bshd o=sbhd do=bshd dk=sbhd ggq=none ggv=bshd",
        "bwd2 bf16 b0 h3 q5 k7 d7 ggk=105.35.7.1 scale=0.5 causal=br window=3,* qlen klen",
        "bwd2 f32 b1 h1 q5 k7 d7 ggv=none diagonal=-3 window=*,2",
    };

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
    const clattn_problem p = fixture_problem("layout=bshd bwd2 q3 f32 h2 d8");
    cr_expect_str_eq(problem_printed(&p),
                     "bwd2 f32 b1 h2 q3 k3 d8 q=bshd k=bshd v=bshd o=bshd do=bshd dq=bshd dk=bshd "
                     "dv=bshd ggq=bshd ggk=bshd ggv=bshd");
}

Test(double_backward_problem, words_that_are_refused) {
    static const struct refused_text cases[] = {
        {"bwd2 f32 q1 d8 bias=f32:qk", "'bias=' is not a word of double backward"},
        {"bwd2 f32 q1 d8 mask=qk", "'mask=' is not a word of double backward"},
        {"bwd2 f32 q1 d8 softcap=3", "'softcap=' is not a word of double backward"},
        {"bwd2 f32 q1 d8 dropout=0.1", "'dropout=' is not a word of double backward"},
        {"bwd2 f32 q1 d8 sinks", "'sinks' is not a word of double backward"},
        {"bwd2 f32 q1 d8 alibi", "'alibi' is not a word of double backward"},
        {"bwd2 f32 q1 d8 dlse", "'dlse' is not a word of double backward"},
        {"bwd2 f32 q1 d8 totalq=9", "'totalq=' is not a word of double backward"},
        {"bwd2 f32 q1 d8 score=t5", "'score=' is not a word of double backward"},
        {"bwd f32 q1 d8 ggq=none", "'ggq=' is not a word of backward"},
        {"bwd2 f32 q1 d8 ggq=none ggk=none ggv=none", "nothing would be derived"},
        {"bwd2 f32 q1 d8 ggq=nine", "'ggq=nine' has a value that cannot be read"},
        {"bwd2 f32 q1 d8 causal=tl diagonal=br", "exclude each other"},
        {"bwd2 f32 h3/2 q1 d8", "heads (3) must be a multiple of kv_heads (2)"},
        {"bwd2 f32 q2 d8 h2 dq=16.8.0.1", "elements of gq share places"},
    };

    problem_texts_refused(cases, sizeof cases / sizeof *cases);
}

#define REFUSED(change, words) PROBLEM_REFUSED("bwd2 f32 q1 d8", change, words)

Test(double_backward_problem, options_that_are_refused) {
    REFUSED(p.bias = 1, "double backward has no bias");
    REFUSED(p.scale = 1.0f, "double backward has no scale");
    REFUSED(p.double_backward.scale = INFINITY, "scale must be finite");
    REFUSED(p.double_backward.dim_v = 0, "dim_v is 0");
    REFUSED(p.double_backward.window_left = -2, "window_left is -2");
    REFUSED(p.double_backward.diagonal = (clattn_diagonal)3, "diagonal is 3");
}

Test(double_backward_problem, operations) {
    const clattn_problem p = fixture_problem("bwd2 f32 b2 h4/2 q5 k7 d8/3");
    const clattn_problem causal = fixture_problem("bwd2 f32 q4 d8/3 causal=tl");

    cr_expect(clattn_problem_flops(&p) == 2.0 * 4 * 5 * 7 * (14 * 8 + 10 * 3));
    cr_expect(clattn_problem_flops(&causal) == 10.0 * (14 * 8 + 10 * 3));
}

/* Sizes are rounded but for dims; a class is its own. */
Test(double_backward_problem, classes) {
    static const struct problem_and_class cases[] = {
        {"bwd2 f32 b2 h12/6 q5 k9 d100 scale=3", "bwd2 f32 b1 h32/16 q4 k8 d100"},
        {"bwd2 f16 q500 d64 causal=tl ggk=none layout=bshd",
         "bwd2 f16 b1 h1 q512 k512 d64 ggk=none causal=tl"},
        {"bwd2 f32 q8 d4 v=64.64.8.2 window=5,6 klen",
         "bwd2 f32 b1 h1 q8 k8 d4 v=64.64.8.2 window=4,8 klen"},
    };

    problem_classes_exact(cases, sizeof cases / sizeof *cases);
    const clattn_problem a = fixture_problem("bwd2 f32 h1 q64 d64");
    const clattn_problem b = fixture_problem("bwd2 f32 h1 q64 d64 ggq=none");
    const clattn_problem backward = fixture_problem("bwd f32 h1 q64 d64");
    cr_expect(ca_class_distance(&a, &b) > 0.0);
    cr_expect(isinf(ca_class_distance(&a, &backward)));
}
