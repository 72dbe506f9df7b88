/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of indexers: their text form, what is refused, operations, classes. No device. */
#include "problem/classes/problem_class.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(indexer_problem, what_is_printed) {
    static const char *const canonical[] = {
        "indexer f32 b2 h8 q512 k512 d64 topk=16",
        ("indexer bf16 b1 h64 q4 k131072 d128 q=bshd w=bshd page=64 pages=2048 causal=br klen "
         "topk=2048 scores"),
        "indexer f16 b3 h1 q5 k7 d7 causal=-3 qlen klen totalq=11 totalkv=12 topk=3",
        "indexer bf16 b2 h3 q5 k7 d8 q=bshd dq=bshd dk=hbsd dw=bshd causal=br topk=3 gradients",
    };

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
    const clattn_problem p = fixture_problem("layout=bshd topk=2 indexer q3 b2 f32 h2 d8 page=2");
    cr_expect_str_eq(problem_printed(&p),
                     "indexer f32 b2 h2 q3 k3 d8 q=bshd k=bshd w=bshd page=2 pages=4 topk=2");
}

Test(indexer_problem, words_that_are_refused) {
    static const struct refused_text cases[] = {
        {"indexer f32 q1 d8", "topk=N is missing"},
        {"indexer f32 q1 d8 topk=0", "topk is 0"},
        {"indexer f32 q1 d8 topk=4294967296", "topk exceeds 2^31 - 1"},
        {"indexer f32 q1 k4294967296 d8 topk=1", "seq_kv exceeds 2^31 - 1"},
        {"indexer f32 q1 d8 topk=1 v=bshd", "'v=' is not a word of indexers"},
        {"indexer f32 q1 d8 topk=1 mask=qk", "'mask=' is not a word of indexers"},
        {"indexer f32 q1 d8 topk=1 scale=2", "'scale=' is not a word of indexers"},
        {"indexer f32 q1 d8 topk=1 scores=raw", "'scores=' is not a word of indexers"},
        {"indexer f32 q1 d8 topk=1 scores gradients", "gradients and scores exclude each other"},
        {"indexer f32 q1 d8 topk=1 page=1 gradients", "keys in pages are not computed"},
        {"fwd f32 q1 d8 scores", "'scores' is not a word of forward"},
        {"indexer f32 h4/2 q1 d8 topk=1", "'h4/2' has a value that cannot be read"},
        {"indexer f32 q1 k8 d8 topk=1 page=4 totalkv=8", "exclude each other"},
        {"indexer f32 b0 q1 d8 topk=1 totalq=8", "batch or seq_q is 0"},
    };

    problem_texts_refused(cases, sizeof cases / sizeof *cases);
}

#define REFUSED(change, words) PROBLEM_REFUSED("indexer f32 q1 d8 topk=2", change, words)

Test(indexer_problem, options_that_are_refused) {
    REFUSED(p.bias = 1, "an indexer has no bias");
    REFUSED(p.topk = 1, "an indexer has no topk");
    REFUSED(p.indexer.dim = 0, "dim is 0");
    REFUSED(p.indexer.dtype = (clattn_dtype)7, "dtype is 7");
    REFUSED(p.indexer.diagonal = CLATTN_BOTTOM_RIGHT, "not causal");
    REFUSED(p.indexer.pages = 3, "pages is 3");
}

Test(indexer_problem, operations) {
    const clattn_problem p = fixture_problem("indexer f32 b2 h4 q5 k7 d8 topk=3");
    const clattn_problem causal = fixture_problem("indexer f32 q4 d8 causal=tl topk=3");

    cr_expect(clattn_problem_flops(&p) == 2.0 * 4 * 5 * 7 * 2 * 8);
    cr_expect(clattn_problem_flops(&causal) == 10.0 * 2 * 8);
    const clattn_problem gradients = fixture_problem("indexer f32 b2 h4 q5 k7 d8 topk=3 gradients");
    cr_expect(clattn_problem_flops(&gradients) == 6.0 * 10 * 3 * 4 * 8);
}

/* Sizes are rounded but for dims; a class is its own. */
Test(indexer_problem, classes) {
    static const struct problem_and_class cases[] = {
        {"indexer f32 b2 h12 q5 k9 d100 topk=5", "indexer f32 b1 h16 q8 k8 d100 topk=4"},
        {"indexer f16 h64 q500 k9000 d128 causal=tl w=bshd topk=2048 page=64",
         "indexer f16 b1 h64 q512 k8192 d128 page=64 pages=128 causal=tl topk=2048"},
    };

    problem_classes_exact(cases, sizeof cases / sizeof *cases);
    const clattn_problem a = fixture_problem("indexer f32 h4 q64 d64 topk=8");
    const clattn_problem b = fixture_problem("indexer f32 h4 q64 d64 topk=16");
    const clattn_problem forward = fixture_problem("fwd f32 h4 q64 d64");
    cr_expect(ca_class_distance(&a, &b) > 0.0);
    cr_expect(isinf(ca_class_distance(&a, &forward)));
}
