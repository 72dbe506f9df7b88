/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of problems: what they keep, what they round, and how far apart they are. */
#include "problem/chosen_keys.h"
#include "problem/function.h"
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include "tests/trials/random_function.h"
#include "tests/trials/random_problem.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sizes over all magnitudes, which pass the check. */
static clattn_problem extreme_problem(struct rng *r)
{
    static const clattn_layout packed;
    clattn_problem p;

    do {
        size_t *sizes[] = {&p.batch, &p.kv_heads, &p.seq_q, &p.seq_kv, &p.dim_qk, &p.dim_v};
        p = random_problem(r);
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
            *sizes[n] = (size_t)exp2(rng_uniform(r, 0, rng_one_in(r, 4) ? 48 : 12));
        p.heads = p.kv_heads * (1 + rng_below(r, 300));
        p.q = p.k = p.v = p.o = p.bias_layout = p.mask_layout = packed;
        p.d_o = p.dq = p.dk = p.dv = packed;
        if (rng_one_in(r, 2))
            clattn_layout_packed("bhds", (size_t[]){p.batch, p.kv_heads, p.seq_kv, p.dim_qk}, &p.k);
        if (rng_one_in(r, 2))
            clattn_layout_packed("bhds", (size_t[]){p.batch, p.heads, p.seq_q, p.dim_v}, &p.o);
        if (rng_one_in(r, 4))
            p.window_left = (int64_t)exp2(rng_uniform(r, 0, 48));
        if (rng_one_in(r, 4))
            p.window_right = (int64_t)exp2(rng_uniform(r, 0, 48));
    } while (clattn_problem_check(&p, NULL, 0) != CLATTN_SUCCESS);
    return p;
}

/* The conditions of a program, counted here anew from the kernels' sources. */
enum { NUM_DEFINES = 44 };
static void defines_of(const clattn_problem *problem, size_t defines[NUM_DEFINES])
{
    const struct ca_problem given = ca_problem_own(problem);
    const clattn_problem p =
        ca_problem_chosen(&given).normal; /* sums of weights have a program of their own */
    const int lengths = p.q_lengths || p.kv_lengths, backward = p.operation == CLATTN_BACKWARD;
    const size_t all[NUM_DEFINES] = {(size_t)p.dtype,
                                     p.bias ? (size_t)p.bias_dtype : 0,
                                     (size_t)p.k_cache,
                                     (size_t)p.v_cache,
                                     p.dim_qk,
                                     p.dim_v,
                                     p.q.stride[3] == 1 || p.dim_qk == 1,
                                     p.k.stride[3] == 1 || p.dim_qk == 1,
                                     p.v.stride[3] == 1 || p.dim_v == 1,
                                     p.o.stride[3] == 1 || p.dim_v == 1,
                                     p.softcap > 0.0f,
                                     p.bias != 0,
                                     p.mask != 0,
                                     p.window_left != CLATTN_UNLIMITED,
                                     p.window_right != CLATTN_UNLIMITED,
                                     lengths && p.diagonal == CLATTN_BOTTOM_RIGHT,
                                     (size_t)p.scores,
                                     p.dropout > 0.0f,
                                     (size_t)p.operation,
                                     backward && (p.d_o.stride[3] == 1 || p.dim_v == 1),
                                     backward && (p.dq.stride[3] == 1 || p.dim_qk == 1),
                                     backward && (p.dk.stride[3] == 1 || p.dim_qk == 1),
                                     backward && (p.dv.stride[3] == 1 || p.dim_v == 1),
                                     p.score_function ? p.score_function->hash : 0,
                                     p.mask_function ? p.mask_function->hash : 0,
#define FLAG(ID, member, word, OF, difference) p.member != 0,
                                     CA_FLAGS(FLAG)
#undef FLAG
    };

    memcpy(defines, all, sizeof all);
}

static int same_defines(const clattn_problem *a, const clattn_problem *b)
{
    size_t of_a[NUM_DEFINES], of_b[NUM_DEFINES];

    defines_of(a, of_a);
    defines_of(b, of_b);
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}

Test(problem_class, random_problems) {
    struct rng r = rng_seed(41);

    for (int n = 0; n < 3000; n++) {
        clattn_problem p = random_problem(&r);
        random_functions_of_some(&r, &p);
        problem_class_check(&p, same_defines);
    }
}

/* Two functions whose names are as long as they may be: both hashes are in the text. */
Test(problem_class, long_names_of_functions) {
    char name[201], text[CA_CLASS_TEXT], reason[256];
    clattn_problem p =
        fixture_problem("bwd bf16 b1 h32/8 q1024 k4096 d128/96 softcap=5 causal=br "
                        "window=100,50 bias=bf16:bhqk mask=bhqk alibi sinks dropout=0.125");
    const clattn_function *made[2];

    memset(name, 'n', 200);
    name[200] = '\0';
    for (int kind = 0; kind < 2; kind++) {
        const clattn_function *known = trial_function((clattn_function_kind)kind, 1);
        char source[2048];
        snprintf(source, sizeof source, "// long\n%s", clattn_function_source(known));
        cr_assert(clattn_function_create(name, source, &made[kind], reason, sizeof reason) ==
                      CLATTN_SUCCESS,
                  "%s", reason);
    }
    p.score_function = made[0];
    p.mask_function = made[1];
    cr_assert(clattn_problem_class(&p, text, sizeof text, NULL) == CLATTN_SUCCESS);
    cr_expect(strstr(text, strrchr(clattn_function_name(made[0]), ':')) &&
                  strstr(text, strrchr(clattn_function_name(made[1]), ':')),
              "%s", text);
    problem_class_check(&p, same_defines);
}

Test(problem_class, extreme_problems) {
    struct rng r = rng_seed(42);

    for (int n = 0; n < 3000; n++) {
        const clattn_problem p = extreme_problem(&r);
        problem_class_check(&p, same_defines);
    }
}

Test(problem_class, what_is_rounded) {
    static const struct problem_and_class cases[] = {
        {"fwd f16 b1 h32/8 q1024 k4096 d128 causal=br",
         "fwd f16 b1 h32/8 q1024 k4096 d128 causal=br"},
        {"fwd f16 b2 h32/8 q1000 k4000 d128 causal=br",
         "fwd f16 b1 h64/16 q1024 k4096 d128 causal=br"},
        /* the nearest by ratio: the border lies at sqrt(2) */
        {"fwd f32 q90 k91 d80", "fwd f32 b1 h1 q64 k128 d80"},
        {"fwd f32 q46340 k46341 d80", "fwd f32 b1 h1 q32768 k65536 d80"},
        {"fwd f32 h11 q3 k5 d7/9", "fwd f32 b1 h8 q4 k4 d7/9"},
        {"fwd f32 h12/4 q1 k1 d8", "fwd f32 b1 h16/4 q1 k1 d8"},
        /* the ends */
        {"fwd f32 b0 q0 k0 d8", "fwd f32 b1 h1 q1 k1 d8"},
        {"fwd f32 b500 h500/1 q100000 k70000000 d8", "fwd f32 b1 h128/1 q65536 k65536 d8"},
        {"fwd f32 b300 h2/1 q8 k8 d8", "fwd f32 b1 h128/64 q8 k8 d8"},
        {"fwd f32 q1024 k1024 d281474976710655", "fwd f32 b1 h1 q1024 k1024 d281474976710655"},
        {"fwd f32 q725 k725 d281474976710655 q=bshd o=bhds",
         "fwd f32 b1 h1 q1024 k1024 d281474976710655 o=bhds"},
        {"fwd f32 b1 h100 q725 k1 d3975000000000",
         "fwd f32 b1 h128 q512 k1 d3975000000000" /* not 1024: 2^58 elements */},
        /* positions: all diagonals become one, unless it follows lengths or must not */
        {"fwd f32 q64 d8 causal=tl", "fwd f32 b1 h1 q64 k64 d8 causal=br"},
        {"fwd f32 q64 d8 causal=-7", "fwd f32 b1 h1 q64 k64 d8 causal=br"},
        {"fwd f32 q64 d8 window=*,0", "fwd f32 b1 h1 q64 k64 d8 causal=br"},
        {"fwd f32 q64 d8 causal=br window=*,9", "fwd f32 b1 h1 q64 k64 d8 causal=br"},
        {"fwd f32 q64 k256 d8 causal=tl klen", "fwd f32 b1 h1 q64 k256 d8 causal=192 klen"},
        {"fwd f32 q64 k256 d8 causal=br klen", "fwd f32 b1 h1 q64 k256 d8 causal=br klen"},
        {"fwd f32 q64 d8 diagonal=5", "fwd f32 b1 h1 q64 k64 d8"},
        {"fwd f32 q64 d8 diagonal=5 qlen", "fwd f32 b1 h1 q64 k64 d8 qlen"},
        {"fwd f32 q64 d8 diagonal=br qlen", "fwd f32 b1 h1 q64 k64 d8 diagonal=br qlen"},
        {"fwd f32 q64 d8 diagonal=5 alibi", "fwd f32 b1 h1 q64 k64 d8 diagonal=br alibi"},
        /* windows */
        {"fwd f32 q64 k256 d8 window=90,3", "fwd f32 b1 h1 q64 k256 d8 diagonal=br window=64,4"},
        {"fwd f32 q64 k256 d8 window=0,999", "fwd f32 b1 h1 q64 k256 d8 diagonal=br window=0,256"},
        {"fwd f32 q64 k256 d8 window=281474976710656,*",
         "fwd f32 b1 h1 q64 k256 d8 diagonal=br window=256,*"},
        /* layouts */
        {"fwd f32 b2 h3 q5 d8 q=bshd k=sbhd v=0.0.8.1", "fwd f32 b1 h8 q4 k4 d8"},
        {"fwd f32 h4 q1 k64 d8 q=99.90.90.5 k=bhds v=9.9.9.9 o=bsdh",
         "fwd f32 b1 h4 q1 k64 d8 q=bsdh k=bhds v=bhds o=bsdh"},
        {"fwd f32 q1 k64 d8 q=0.0.0.0 o=0.0.0.3", "fwd f32 b1 h1 q1 k64 d8 o=0.0.0.2"},
        {"fwd f32 h4 q64 d1 q=bhds k=7.7.7.7", "fwd f32 b1 h4 q64 k64 d1"},
        /* options */
        {"fwd bf16 q64 d8 scale=3 softcap=51 bias=f16:qk mask=bk sinks lse scores=bias",
         "fwd bf16 b1 h1 q64 k64 d8 softcap=30 bias=f16:bhqk mask=bhqk sinks lse scores=bias"},
        {"fwd f16 h4 q1 k64 d20 kcache=f32 vcache=f16", "fwd f16 b1 h4 q1 k64 d20 kcache=f32"},
        {"fwd f16 h4 q1 k64 d32 k=bshd kcache=q8_0 vcache=q4_0",
         "fwd f16 b1 h4 q1 k64 d32 kcache=q8_0 vcache=q4_0"},
    };

    problem_classes_check(cases, sizeof cases / sizeof *cases, same_defines);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* One thing changed. */
static clattn_problem varied(struct rng *r, clattn_problem p)
{
    clattn_layout *const layouts[] = {&p.q, &p.k, &p.v, &p.o, &p.d_o, &p.dq, &p.dk, &p.dv};
    const size_t used = p.operation == CLATTN_BACKWARD ? 8 : 4, side = rng_below(r, 2);

    switch (rng_below(r, 11)) {
    case 0: /* what is written must have room */
        p.seq_q = p.seq_q == 8 ? 16 : 8;
        p.o = p.dq = (clattn_layout){{0}};
        p.dbias = 0;
        break;
    case 1:
        p.lse = !p.lse;
        break;
    case 2: /* another stride along dim, of a problem of one head */
        p.batch = p.heads = p.kv_heads = 1;
        p.k_cache = p.v_cache = CLATTN_CACHE_PLAIN;
        for (size_t n = 0; n < used; n++)
            *layouts[n] = (clattn_layout){{0}};
        *layouts[rng_below(r, used)] = (clattn_layout){{0, 0, 1, 1000}};
        break;
    case 3:
        p.diagonal = p.diagonal == CLATTN_OFFSET ? CLATTN_BOTTOM_RIGHT : CLATTN_OFFSET;
        p.kv_lengths = 1;
        break;
    case 4:
        p.causal = !p.causal;
        break;
    case 5:
        p.causal = 0;
        p.window_right = (int64_t)side + 1;
        break;
    case 6:
        p.window_left = (int64_t)side;
        break;
    case 7:
        p.bias_dtype = CLATTN_BF16; /* with or without a bias */
        break;
    case 8:
        p.dropout = p.dropout > 0.0f || p.page_size ? 0.0f : 0.5f;
        break;
    case 9:
        p.k = p.v = (clattn_layout){{0}};
        if (p.operation == CLATTN_FORWARD && p.dim_qk % 32 == 0)
            p.k_cache = (clattn_cache)rng_below(r, CA_NUM_CACHES);
        if (p.operation == CLATTN_FORWARD && p.dim_v % 32 == 0)
            p.v_cache = (clattn_cache)rng_below(r, CA_NUM_CACHES);
        break;
    default:
        if (p.operation == CLATTN_FORWARD && !p.total_q && !p.total_kv)
            p.scores = p.scores ? CLATTN_SCORES_NONE : CLATTN_SCORES_BIAS;
    }
    return p;
}

/* Whatever makes another program of an append tells its class from others. */
Test(problem_class, appends_alike) {
    static const char *const texts[] = {
        "append f16 h8/2 q4 k512 d128",
        "append f16 h8/2 q4 k512 d128 cache=f32",
        "append f16 h8/2 q4 k512 d128 kcache=q8_0",
        "append f16 h8/2 q4 k512 d128 klen",
        "append f16 h8/2 q4 k512 d128 slots",
        "append f16 h8/2 q4 k512 d128 page=16 pages=32",
        "append f16 h8/2 q4 k512 d128 rope=halves:128:10000",
        "append f16 h8/2 q4 k512 d128 rope=pairs:128:10000",
        "append f16 h8/2 q4 k512 d128 rope=halves:64:10000",
        "append f16 h8/2 q4 k512 d128 rope=halves:128:tables:512",
        "append f16 h8/2 q4 k512 d128 rope=halves:128:10000 pos",
        "append f16 h8/2 q4 k512 d128 rope=halves:128:10000 queries",
        "append f16 h8/2 q4 k512 d128 rope=halves:128:10000 queries=inplace",
    };
    enum { COUNT = sizeof texts / sizeof *texts };
    clattn_problem all[COUNT];

    for (size_t n = 0; n < COUNT; n++) {
        const clattn_problem p = fixture_problem(texts[n]);
        all[n] = problem_representative(&p);
    }
    for (size_t a = 0; a < COUNT; a++)
        for (size_t b = 0; b < COUNT; b++) {
            const double distance = ca_class_distance(&all[a], &all[b]);
            cr_expect(ca_classes_alike(&all[a], &all[b]) == (a == b), "'%s' and '%s'", texts[a],
                      texts[b]);
            cr_expect(isfinite(distance) && (distance == 0.0) == (a == b), "'%s' and '%s': %g",
                      texts[a], texts[b], distance);
        }
}

/* Alike are those, and only those, that make the same programs. */
Test(problem_class, alike_and_distant) {
    enum { MANY = 300 };
    struct rng r = rng_seed(43);
    static clattn_problem all[MANY];
    size_t alike = 0, equal = 0;

    for (size_t n = 0; n < MANY; n++) {
        clattn_problem p = n % 4 ? varied(&r, all[n - 1]) : random_problem(&r);
        p.invariant = p.invariant && p.dropout == 0.0f && !p.block_q && !p.mask_keys && !p.scores &&
                      !p.key_sums;
        p.topk = p.block_q || p.scores || p.key_sums || p.invariant ? 0 : p.topk;
        p.topk_heads = p.topk_heads && p.topk;
        p.k_scales = p.k_scales && ca_has_scales(p.k_cache);
        p.v_scales = p.v_scales && ca_has_scales(p.v_cache);
        if (rng_one_in(&r, 4))
            random_functions_of_some(&r, &p);
        if (!p.lse || p.block_q) { /* after a variation */
            const struct ca_problem given = {p, p};
            p = ca_problem_chosen(&given).normal;
        }
        char why[256];
        cr_assert(clattn_problem_check(&p, why, sizeof why) == CLATTN_SUCCESS, "%s", why);
        all[n] = p;
    }
    for (size_t n = 0; n < MANY; n++)
        all[n] = problem_representative(&all[n]);
    for (size_t a = 0; a < MANY; a++) {
        for (size_t b = 0; b < MANY; b++) {
            char text_a[CA_CLASS_TEXT], text_b[CA_CLASS_TEXT];
            const int same =
                strcmp(problem_class_of(&all[a], text_a), problem_class_of(&all[b], text_b)) == 0;
            const double distance = ca_class_distance(&all[a], &all[b]);
            cr_assert(ca_classes_alike(&all[a], &all[b]) == same_defines(&all[a], &all[b]),
                      "'%s' and '%s'", text_a, text_b);
            cr_assert(distance == ca_class_distance(&all[b], &all[a]));
            cr_assert((distance == 0.0) == same, "'%s' and '%s': %g", text_a, text_b, distance);
            cr_assert((isinf(distance) != 0) == (all[a].operation != all[b].operation ||
                                                 !all[a].scores != !all[b].scores),
                      "'%s' and '%s': %g", text_a, text_b, distance);
            alike += ca_classes_alike(&all[a], &all[b]);
            equal += same;
        }
    }
    cr_expect(equal > MANY && alike > equal, "the pairs prove little: %zu equal, %zu alike", equal,
              alike);
}

/* Pairs of problems, of which the first is the nearer one. */
Test(problem_class, order_of_distances) {
    static const char *const base = "fwd f32 h8 q512 k512 d64";
    static const char *const nearer_and_farther[][2] = {
        {"fwd f32 h8 q1024 k512 d64", "fwd f32 h8 q2048 k512 d64"},
        {"fwd f32 h8 q512 k1024 d64", "fwd f32 h8 q1024 k512 d64"},
        {"fwd f32 h16 q512 k512 d64", "fwd f32 h8 q512 k512 d64 causal=br"},
        {"fwd f32 h8 q512 k512 d64 lse", "fwd f32 h8 q512 k512 d64 bias=f32:qk"},
        {"fwd f32 h8 q512 k512 d80", "fwd f32 h8 q512 k512 d128"},
        {"fwd f32 h8 q512 k1024 d64", "fwd f32 h8 q512 k512 d80"},
        {"fwd f32 h8 q512 k512 d64 window=512,*", "fwd f32 h8 q512 k512 d64 window=16,*"},
        {"fwd f32 h8 q256 k256 d64", "fwd f16 h8 q512 k512 d64"},
        {"fwd f32 h8/2 q512 k512 d64", "fwd f32 h16 q512 k512 d64 k=bhds"},
        {"fwd f32 h8 q1024 k512 d64", "fwd f32 h8 q512 k512 d64 kcache=q8_0"},
        {"fwd f32 h8 q512 k512 d64 kcache=q8_0",
         "fwd f32 h8 q512 k512 d64 kcache=q8_0 vcache=q8_0"},
    };

    for (size_t n = 0; n < sizeof nearer_and_farther / sizeof *nearer_and_farther; n++) {
        const char *const *pair = nearer_and_farther[n];
        cr_expect(problem_class_distance(base, pair[0]) < problem_class_distance(base, pair[1]),
                  "'%s' %g, '%s' %g", pair[0], problem_class_distance(base, pair[0]), pair[1],
                  problem_class_distance(base, pair[1]));
    }
    cr_expect_float_eq(problem_class_distance(base, "fwd f32 h8 q1024 k512 d64"), 1.0, 1e-12);
    cr_expect(problem_class_distance("fwd f16 q64 d8", "fwd bf16 q64 d8") <
              problem_class_distance("fwd f16 q64 d8", "fwd f32 q64 d8"));
    cr_expect(isinf(problem_class_distance(base, "fwd f32 h8 q512 k512 d64 scores=raw")));
    cr_expect(
        isfinite(problem_class_distance("fwd f32 q8 d8 scores=bias", "fwd f32 q8 d8 scores=raw")));
}

/* A configuration tuned for one query holds too few rows for eight. With many queries, twice as
 * many make no difference. */
Test(problem_class, few_queries_are_no_neighbours_of_more) {
    cr_expect(problem_class_distance("fwd f32 h32/8 q1 k4096 d128", "fwd f32 h32/8 q2 k4096 d128") >
              CA_CLASS_NEAR);
    cr_expect(problem_class_distance("fwd f32 h32/8 q8 k4096 d128",
                                     "fwd f32 h32/8 q32 k4096 d128") > CA_CLASS_NEAR);
    cr_expect(problem_class_distance("fwd f32 h32/8 q32 k4096 d128",
                                     "fwd f32 h32/8 q64 k4096 d128") <= CA_CLASS_NEAR);
}

/* ---- the public function --------------------------------------------------------------------- */

Test(problem_class, arguments) {
    clattn_problem p = fixture_problem("fwd f32 q60 k60 d8");
    char text[CA_CLASS_TEXT] = "?", small[8] = "?";
    size_t needed = 99;

    cr_expect(clattn_problem_class(NULL, text, sizeof text, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(text[0] == '\0' && needed == 0);
    cr_expect(clattn_problem_class(&p, NULL, 5, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_class(&p, NULL, 0, &needed) == CLATTN_BUFFER_TOO_SMALL);
    cr_expect(needed == strlen("fwd f32 b1 h1 q64 k64 d8") + 1);
    cr_expect(clattn_problem_class(&p, small, sizeof small, NULL) == CLATTN_BUFFER_TOO_SMALL);
    cr_expect_str_eq(small, "fwd f32");
    p.heads = 0;
    cr_expect(clattn_problem_class(&p, text, sizeof text, NULL) == CLATTN_INVALID_PROBLEM);
    p.struct_size--;
    cr_expect(clattn_problem_class(&p, text, sizeof text, NULL) == CLATTN_INVALID_ARGUMENT);
}
