/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of appends, merges, indexers and double backward: their text form, what is refused, operations, classes. No
 * device. */
#include "problem/classes/problem_class.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

#include <criterion/criterion.h>
#include <math.h>

Test(operation_problems, what_is_printed) {
    static const char *const canonical[] = {
        "append f16 b1 h1 q1 k64 d128",
        "append f32 b4 h32/8 q1 k4096 d128 cache=f16 klen rope=halves:128:10000 queries",
        ("append f32 b2 h4/2 q3 k9 d64/32 k=sbhd o=bshd dk=bshd dv=shbd kcache=q8_0 "
         "vcache=q4_0 pos slots rope=pairs:20:tables:77 queries=inplace"),
        "append bf16 b1 h1 q0 k0 d128 rope=halves:2:1.5",
        "append f16 b2 h4/2 q1 k64 d128 kcache=e4m3 vcache=int8 klen kscales vscales=bhk",
        "merge f32 b1 h32 q1 d128 n4",
        "merge f16 b2 h3 q5 d7 n2 parts=bshd o=sbhd",
        "merge bf16 b0 h3 q5 d7 n0 parts=90.40.8.1 accumulate",
        "merge f32 b2 h3 q5 d7 n2 sinks accumulate",
        "indexer f32 b2 h8 q512 k512 d64 topk=16",
        ("indexer bf16 b1 h64 q4 k131072 d128 q=bshd w=bshd page=64 pages=2048 causal=br klen "
         "topk=2048 scores"),
        "indexer f16 b3 h1 q5 k7 d7 causal=-3 qlen klen totalq=11 totalkv=12 topk=3",
        "indexer bf16 b2 h3 q5 k7 d8 q=bshd dq=bshd dk=hbsd dw=bshd causal=br topk=3 gradients",
        "bwd2 f32 b2 h8/2 q512 k512 d64",
        "bwd2 f16 b1 h2 q5 k7 d8/4 q=bshd o=sbhd do=bshd dk=sbhd ggq=none ggv=bshd",
        "bwd2 bf16 b0 h3 q5 k7 d7 ggk=105.35.7.1 scale=0.5 causal=br window=3,* qlen klen",
        "bwd2 f32 b1 h1 q5 k7 d7 ggv=none diagonal=-3 window=*,2",
    };
    static const struct {
        const char *given, *printed;
    } orders[] = {
        {"n3 merge layout=bshd d8 f16 h2 q3", "merge f16 b1 h2 q3 d8 n3 parts=bshd o=bshd"},
        {"layout=bshd topk=2 indexer q3 b2 f32 h2 d8 page=2",
         "indexer f32 b2 h2 q3 k3 d8 q=bshd k=bshd w=bshd page=2 pages=4 topk=2"},
        {"layout=bshd bwd2 q3 f32 h2 d8", "bwd2 f32 b1 h2 q3 k3 d8 q=bshd k=bshd v=bshd o=bshd "
                                          "do=bshd dq=bshd dk=bshd dv=bshd ggq=bshd "
                                          "ggk=bshd ggv=bshd"},
    };
    const clattn_problem merge = fixture_problem(orders[0].given);

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
    for (size_t n = 0; n < sizeof orders / sizeof *orders; n++) {
        const clattn_problem p = fixture_problem(orders[n].given);
        cr_expect_str_eq(problem_printed(&p), orders[n].printed);
    }
    cr_expect(merge.merge.states == 3 && merge.merge.heads == 2 && merge.operation == CLATTN_MERGE);
}

Test(operation_problems, words_that_are_refused) {
    static const struct refused_text cases[] = {
        {"append f32 q1 d8", "kN is missing"},
        {"append f32 f16 q1 k8 d8", "two dtypes are given"},
        {"append append f32 q1 k8 d8", "two operations are given"},
        {"append f32 q1 k8 d8 lse", "'lse' is not a word of appends"},
        {"append f32 q1 k8 d8 qlen", "'qlen' is not a word of appends"},
        {"append f32 q1 k8 d8 accumulate", "'accumulate' is not a word of appends"},
        {"fwd f32 q1 k8 d8 slots", "'slots' is not a word of forward"},
        {"merge f32 q1 n8 d8 rope=pairs:8:2", "'rope=' is not a word of merges"},
        {"append f32 q1 k8 d8 rope=pairs", "'rope=pairs' has a value that cannot be read"},
        {"append f32 q1 k8 d8 rope=none:8:10", "cannot be read"},
        {"append f32 q1 k8 d8 rope=pairs:8:tables:0", "cannot be read"},
        {"append f32 q1 k8 d8 rope=pairs:8:0.5", "rotary_base must be finite and at least 1"},
        {"append f32 q1 k8 d8 rope=pairs:7:10", "rotary_dim must be even"},
        {"append f32 q1 k8 d8 rope=halves:10:10", "rotary_dim must be even"},
        {"append f32 q1 k8 d8 queries", "there is no rotary that they need"},
        {"append f32 q1 k8 d8 pos", "there is no rotary that needs them"},
        {"append f32 q1 k8 d8 rope=pairs:8:10 queries queries=inplace", "'queries' is given twice"},
        {"append f32 q1 k8 d8 rope=pairs:8:10 queries=there", "cannot be read"},
        {"append f32 h3/2 q1 k8 d8", "heads (3) must be a multiple of kv_heads (2)"},
        {"append f32 q1 k8 d40 kcache=q8_0", "k_cache is quantized: its dim must be a multiple"},
        {"append f32 q1 k8 d40 kcache=f16", "cache_dtype is the dtype"},
        {"append f32 q1 k8 d8 dk=0.0.0.1", "elements of k_cache share places"},
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

/* Members of attention are none of other operations. */
Test(operation_problems, members_that_are_refused) {
#define REFUSED(change, words) PROBLEM_REFUSED("append f32 q1 k8 d8", change, words)
    REFUSED(p.sinks = 1, "an append has no sinks");
    REFUSED(p.kv_lengths = 1, "an append has no kv_lengths");
    REFUSED(p.heads = 2, "an append has no heads");
    REFUSED(p.append.cache_dtype = (clattn_dtype)3, "cache_dtype is 3");
    REFUSED(p.append.v_format = (clattn_cache)99, "v_format is 99");
    REFUSED(p.append.tokens = CA_MAX_SIZE + 1, "tokens is");
    REFUSED(p.append.capacity = CA_MAX_SIZE + 1, "capacity is");
    REFUSED(p.append.kv_heads = 0, "kv_heads is 0");
    REFUSED(p.append.pages = 1, "pages is 1 but must be from 0 to 0");
    REFUSED(p.append.rotary_length = CA_MAX_SIZE + 1, "rotary_length is");
    REFUSED(p.room[63] = 1, "members of other operations but its own");
#undef REFUSED
#define REFUSED(change, words) PROBLEM_REFUSED("merge f32 q1 d8 n2", change, words)
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
#undef REFUSED
#define REFUSED(change, words) PROBLEM_REFUSED("indexer f32 q1 d8 topk=2", change, words)
    REFUSED(p.bias = 1, "an indexer has no bias");
    REFUSED(p.topk = 1, "an indexer has no topk");
    REFUSED(p.indexer.dim = 0, "dim is 0");
    REFUSED(p.indexer.dtype = (clattn_dtype)7, "dtype is 7");
    REFUSED(p.indexer.diagonal = CLATTN_BOTTOM_RIGHT, "not causal");
    REFUSED(p.indexer.pages = 3, "pages is 3");
#undef REFUSED
#define REFUSED(change, words) PROBLEM_REFUSED("bwd2 f32 q1 d8", change, words)
    REFUSED(p.bias = 1, "double backward has no bias");
    REFUSED(p.scale = 1.0f, "double backward has no scale");
    REFUSED(p.double_backward.scale = INFINITY, "scale must be finite");
    REFUSED(p.double_backward.dim_v = 0, "dim_v is 0");
    REFUSED(p.double_backward.window_left = -2, "window_left is -2");
    REFUSED(p.double_backward.diagonal = (clattn_diagonal)3, "diagonal is 3");
#undef REFUSED
}

/* An operation's members are refused in problems of every other one. */
Test(operation_problems, members_of_other_operations) {
    PROBLEM_REFUSED("fwd f32 q1 k8 d8", p.append.slots = 1, "attention has no members of");
    PROBLEM_REFUSED("bwd f32 q1 k8 d8", p.merge.sinks = 1, "gradients has no members of");
    PROBLEM_REFUSED("merge f32 q1 n2 d8", p.append.slots = 1, "a merge has no members of");
    PROBLEM_REFUSED("proj f32 q1 d8", p.append.slots = 1, "a projection has no members of");
}

Test(operation_problems, operations) {
    static const struct {
        const char *problem;
        double flops;
    } cases[] = {
        {"append f32 b2 h4/2 q3 k9 d64 rope=pairs:20:10 queries", 6.0 * 2 * 3 * (2 + 4) * 10},
        {"merge f32 b2 h3 q5 d8 n4", 2.0 * 4 * 2 * 3 * 5 * 8},
        {"indexer f32 b2 h4 q5 k7 d8 topk=3", 2.0 * 4 * 5 * 7 * 2 * 8},
        {"indexer f32 q4 d8 causal=tl topk=3", 10.0 * 2 * 8},
        {"indexer f32 b2 h4 q5 k7 d8 topk=3 gradients", 6.0 * 10 * 3 * 4 * 8},
        {"bwd2 f32 b2 h4/2 q5 k7 d8/3", 2.0 * 4 * 5 * 7 * (14 * 8 + 10 * 3)},
        {"bwd2 f32 q4 d8/3 causal=tl", 10.0 * (14 * 8 + 10 * 3)},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_problem p = fixture_problem(cases[n].problem);
        cr_expect(clattn_problem_flops(&p) == cases[n].flops, "%s", cases[n].problem);
    }
}

static double distance(const char *one, const char *other)
{
    const clattn_problem a = fixture_problem(one), b = fixture_problem(other);

    return ca_class_distance(&a, &b);
}

/* Sizes are rounded but for dims; a class is its own, and far from those of other operations. */
Test(operation_problems, classes) {
    static const struct problem_and_class cases[] = {
        {"append f32 b3 h12/4 q5 k1000 d100 klen", "append f32 b1 h16/4 q16 k1024 d100 klen"},
        {"append f16 b1 h1 q1 k9999999 d64 cache=f32 rope=pairs:8:500 queries",
         "append f16 b1 h1 q1 k4096 d64 cache=f32 rope=pairs:8:10000 queries"},
        {"append f32 h2 q3 k7 d32 kcache=q4_0 dv=448.224.32.1 slots",
         "append f32 b1 h2 q4 k8 d32 kcache=q4_0 slots"},
        /* A buffer has at most 2^48 elements. */
        {"append f32 h9 q1 k2049 d8589934592", "append f32 b1 h8 q1 k2048 d8589934592"},
        {"merge f32 b2 h12 q5 d100 n3", "merge f32 b1 h1 q128 d100 n4"},
        {"merge f16 b1 h1 q1 d64 n1000 parts=bshd accumulate",
         "merge f16 b1 h1 q1 d64 n64 accumulate"},
        {"merge f32 h2 q3 d8 n2 parts=96.48.16.2", "merge f32 b1 h1 q8 d8 n2 parts=128.128.16.2"},
        {"merge f32 h2 q3 d8 n2 sinks", "merge f32 b1 h1 q8 d8 n2 sinks"},
        {"merge f32 h2 q3 d281474976710656 n2", "merge f32 b1 h1 q8 d281474976710656 n2"},
        {"indexer f32 b2 h12 q5 k9 d100 topk=5", "indexer f32 b1 h16 q8 k8 d100 topk=4"},
        {"indexer f16 h64 q500 k9000 d128 causal=tl w=bshd topk=2048 page=64",
         "indexer f16 b1 h64 q512 k8192 d128 page=64 pages=128 causal=tl topk=2048"},
        {"bwd2 f32 b2 h12/6 q5 k9 d100 scale=3", "bwd2 f32 b1 h32/16 q4 k8 d100"},
        {"bwd2 f16 q500 d64 causal=tl ggk=none layout=bshd",
         "bwd2 f16 b1 h1 q512 k512 d64 ggk=none causal=tl"},
        {"bwd2 f32 q8 d4 v=64.64.8.2 window=5,6 klen",
         "bwd2 f32 b1 h1 q8 k8 d4 v=64.64.8.2 window=4,8 klen"},
    };
    static const char *const triples[][3] = {
        {"merge f32 h1 q64 d64 n4", "merge f32 h1 q128 d64 n4", "fwd f32 h1 q64 k4 d64"},
        {"indexer f32 h4 q64 d64 topk=8", "indexer f32 h4 q64 d64 topk=16", "fwd f32 h4 q64 d64"},
        {"bwd2 f32 h1 q64 d64", "bwd2 f32 h1 q64 d64 ggq=none", "bwd f32 h1 q64 d64"},
    };

    problem_classes_exact(cases, sizeof cases / sizeof *cases);
    for (size_t n = 0; n < sizeof triples / sizeof *triples; n++) {
        const double near = distance(triples[n][0], triples[n][1]);
        cr_expect(near > 0.0 && isfinite(near), "%s", triples[n][1]);
        cr_expect(isinf(distance(triples[n][0], triples[n][2])), "%s", triples[n][2]);
    }
    cr_expect(distance(triples[0][0], triples[0][1]) <
              distance(triples[0][0], "merge f32 h1 q64 d128 n4"));
}
