/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of appends: their text form, what is refused, operations, classes. No device. */
#include "problem/classes/problem_class.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

#include <criterion/criterion.h>
#include <string.h>

Test(append_problem, what_is_printed) {
    static const char *const canonical[] = {
        "append f16 b1 h1 q1 k64 d128",
        "append f32 b4 h32/8 q1 k4096 d128 cache=f16 klen rope=halves:128:10000 queries",
        ("append f32 b2 h4/2 q3 k9 d64/32 k=sbhd o=bshd dk=bshd dv=shbd kcache=q8_0 "
         "vcache=q4_0 pos slots rope=pairs:20:tables:77 queries=inplace"),
        "append bf16 b1 h1 q0 k0 d128 rope=halves:2:1.5",
        "append f16 b2 h4/2 q1 k64 d128 kcache=e4m3 vcache=int8 klen kscales vscales=bhk",
    };

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
}

Test(append_problem, words_that_are_refused) {
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
    };

    problem_texts_refused(cases, sizeof cases / sizeof *cases);
}

#define REFUSED(change, words) PROBLEM_REFUSED("append f32 q1 k8 d8", change, words)

Test(append_problem, members_that_are_refused) {
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
}

/* An operation's members are refused in problems of every other one. */
Test(append_problem, members_of_other_operations) {
    PROBLEM_REFUSED("fwd f32 q1 k8 d8", p.append.slots = 1, "attention has no members of");
    PROBLEM_REFUSED("bwd f32 q1 k8 d8", p.merge.sinks = 1, "gradients has no members of");
    PROBLEM_REFUSED("merge f32 q1 n2 d8", p.append.slots = 1, "a merge has no members of");
    PROBLEM_REFUSED("proj f32 q1 d8", p.append.slots = 1, "a projection has no members of");
}

Test(append_problem, operations_and_classes) {
    static const struct problem_and_class cases[] = {
        {"append f32 b3 h12/4 q5 k1000 d100 klen", "append f32 b1 h16/4 q16 k1024 d100 klen"},
        {"append f16 b1 h1 q1 k9999999 d64 cache=f32 rope=pairs:8:500 queries",
         "append f16 b1 h1 q1 k4096 d64 cache=f32 rope=pairs:8:10000 queries"},
        {"append f32 h2 q3 k7 d32 kcache=q4_0 dv=448.224.32.1 slots",
         "append f32 b1 h2 q4 k8 d32 kcache=q4_0 slots"},
        /* A buffer has at most 2^48 elements. */
        {"append f32 h9 q1 k2049 d8589934592", "append f32 b1 h8 q1 k2048 d8589934592"},
    };
    const clattn_problem p =
        fixture_problem("append f32 b2 h4/2 q3 k9 d64 rope=pairs:20:10 queries");

    cr_expect(clattn_problem_flops(&p) == 6.0 * 2 * 3 * (2 + 4) * 10);
    problem_classes_exact(cases, sizeof cases / sizeof *cases);
}
