/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of chosen keys ("Chosen keys" in clattn/problem.h). The sweep draws them with every other option. */
#include "context/context.h"
#include "problem/chosen_keys.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

TestSuite(topk, .init = unoptimised, .timeout = 240);

/* Each with the problem without lists that is computed in its place: "page=1" where lists are page tables, "mask" where they
 * become one, and packed tensors of o in f32 where what lists name is copied, in one execution or in several. */
static const struct {
    const char *text, *without;
} problems[] = {
    {"fwd f32 b2 h4/2 q9 k170 d24 causal=br lse topk=20 topkheads",
     "fwd f32 b9 h2/1 q1 k20 d24 q=864.216.24.1 k=hbsd v=hbsd o=864.216.24.1 page=1 pages=170 "
     "scale=0.204124153 klen lse totalq=9"},
    {"fwd f32 b2 h4/2 q9 k70 d24 causal=br lse topk=60 topkheads",
     "fwd f32 b2 h4/2 q9 k70 d24 scale=0.204124153 causal=br window=*,0 mask=bhqk lse"},
    {"fwd f16 b3 h8/1 q3 k200 d40/32 page=16 pages=40 klen qlen sinks lse topk=40",
     "fwd f16 b3 h8/1 q1 k40 d40/32 k=40.640.40.1 v=32.512.32.1 page=1 pages=640 scale=0.158113882 "
     "sinks klen lse totalq=3"},
    {"fwd bf16 b3 h4/2 q20 k300 d32 causal=br totalq=50 totalkv=430 lse topk=17 topkheads",
     "fwd bf16 b50 h2/1 q1 k17 d32 q=6400.1600.32.1 k=hbsd v=hbsd o=6400.1600.32.1 page=1 "
     "pages=430 scale=0.176776692 klen lse totalq=50"},
    {"fwd f16 b3 h4/2 q2 k200 d32 totalkv=430 sinks lse topk=17 topkheads",
     "fwd f16 b2 h2/1 q1 k17 d32 q=256.64.32.1 k=hbsd v=hbsd o=256.64.32.1 page=1 pages=430 "
     "scale=0.176776692 sinks klen lse totalq=2"},
    {"fwd f32 b2 h4/1 q2 k190 d64 kcache=q8_0 vcache=q4_0 window=30,4 topk=33",
     "fwd f32 b2 h4/1 q1 k33 d64 k=hbsd v=hbsd kcache=q8_0 vcache=q4_0 page=1 pages=190 "
     "scale=0.125 klen totalq=2"},
    {"fwd f32 b2 h2 q5 k30 d8 mask=qk bias=f32:hqk alibi dropout=0.3 topk=60",
     "fwd f32 b2 h2 q5 k30 d8 scale=0.353553385 bias=f32:hqk mask=bhqk alibi dropout=0.300000012"},
    {"fwd f32 h2 q3 k0 d8 lse topk=4", "fwd f32 b1 h2 q3 k0 d8 scale=0.353553385 lse"},
    {"fwd f16 b5 h6/2 q1 k200 d32 softcap=20 lse topk=50 topkheads",
     "fwd f16 b10 h3/1 q1 k50 d32 k=32.6400.32.1 v=32.6400.32.1 page=1 pages=2000 "
     "scale=0.176776692 softcap=20 klen lse"},
    {"fwd f32 b3 h6/2 q1 k200 d32 sinks lse topk=50 topkheads layout=bshd",
     "fwd f32 b1 h3/1 q1 k50 d32 q=192.32.192.1 k=64.32.32.1 v=64.32.32.1 o=192.32.192.1 page=1 "
     "pages=200 scale=0.176776692 sinks klen lse"},
    {"fwd bf16 b2 h16/1 q1 k150 d64/32 k=bshd v=4800.4800.32.1 klen lse topk=70",
     "fwd bf16 b2 h16/1 q1 k70 d64/32 v=32.4800.32.1 page=1 pages=300 scale=0.125 klen lse"},
    {"fwd f16 b2 h8/2 q1 k150 d64 page=8 pages=50 k=bshd lse topk=70",
     "fwd f16 b2 h8/2 q1 k150 d64 k=bshd page=8 pages=50 scale=0.125 mask=150.0.150.1 lse"},
    {"fwd f32 b3 h4/2 q4 k90 d16 mask=bhqk maskkeys=7 klen totalq=10 lse topk=50",
     "fwd f32 b3 h4/2 q4 k90 d16 scale=0.25 mask=bhqk klen lse totalq=10"},
    {"bwd f32 b2 h4/2 q9 k70 d24 causal=br topk=20 topkheads",
     "bwd f32 b2 h4/2 q9 k70 d24 scale=0.204124153 causal=br window=*,0 mask=bhqk"},
    {"bwd bf16 b3 h4/1 q20 k60 d32 causal=br totalq=50 totalkv=130 dlse topk=17",
     "bwd bf16 b3 h4/1 q20 k60 d32 scale=0.176776692 causal=br window=*,0 mask=bqk totalq=50 "
     "totalkv=130 dlse"},
    {"bwd f16 b2 h4/2 q12 k50 d16 mask=qk bias=f32:hqk alibi sinks dbias dslopes dsinks topk=30",
     "bwd f16 b2 h4/2 q12 k50 d16 scale=0.25 bias=f32:hqk mask=bhqk alibi sinks dbias dslopes "
     "dsinks"},
    {"bwd f32 b2 h4/2 q70 k400 d16 causal=br qlen klen topk=5 topkheads",
     "bwd f32 b56 h1 q2 k5 d16 scale=0.25 klen"},
    {"bwd bf16 b3 h8/1 q20 k900 d32 totalq=50 totalkv=1300 dlse topk=17",
     "bwd bf16 b50 h1 q8 k17 d32 scale=0.176776692 klen odtype=f32 dlse"},
    {"bwd f16 b2 h4/2 q3 k300 d24/16 window=90,4 softcap=20 topk=4 layout=bshd",
     "bwd f16 b6 h2 q2 k4 d24/16 scale=0.204124153 softcap=20 klen odtype=f32"},
    {"bwd bf16 b1 h4/1 q9 k800 d32 odtype=f32 strict k=bshd topk=6",
     "bwd bf16 b9 h1 q4 k6 d32 scale=0.176776692 klen odtype=f32 strict"},
    {"bwd f32 b2 h4/2 q33 k600 d8 totalkv=900 topk=9",
     "bwd f32 b33 h2 q2 k9 d8 scale=0.353553385 klen"},
    {"bwd f32 b2 h4/2 q40 k700 d24 causal=br qlen sinks dsinks dlse topk=5",
     "bwd f32 b40 h2 q2 k5 d24 scale=0.204124153 klen dlse"},
    {"bwd bf16 b3 h8/1 q20 k1900 d32 totalq=50 sinks dsinks topk=17",
     "bwd bf16 b50 h1 q8 k17 d32 scale=0.176776692 klen odtype=f32"},
    {"bwd f32 b2 h4/1 q0 k90 d16 topk=3", "bwd f32 b2 h4/1 q0 k90 d16 scale=0.25"},
    {"bwd f16 b3 h4/2 q33 k600 d8 causal=br totalq=70 klen topk=9 topkheads",
     "bwd f16 b47 h1 q2 k9 d8 scale=0.353553385 klen odtype=f32"},
};

Test(topk, become_problems_without_lists) {
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        const clattn_problem p = fixture_problem(problems[n].text);
        const struct ca_problem own = ca_problem_own(&p), chosen = ca_problem_chosen(&own);
        char text[512];
        clattn_problem_print(&chosen.given, text, sizeof text, NULL);
        cr_expect(eq(str, text, (char *)(uintptr_t)problems[n].without));
    }
}

/* Self-checked; guard bands, NaN in keys that no list has, and entries that are no key or stand twice. */
Test(topk, are_right) {
    struct fixture f;

    fixture_open_checked(&f, "");
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++)
        if (run_takes_of(n, sizeof problems / sizeof *problems, 2)) {
            struct trial t = {.problem = fixture_problem(problems[n].text), .seed = n + 1};
            trial_pass(&f, &t);
        }
    fixture_close(&f);
}

/* The same where a group has many work-items, as on GPUs. */
Test(topk, are_right_by_groups_of_items) {
    const clattn_plan_options naive = {.struct_size = sizeof naive, .family = "naive"};
    struct fixture f;

    fixture_open_checked(&f, "");
    if (f.context->device.max_work_group_size < 64)
        cr_skip_test("the device has no groups of 64 work-items");
    f.context->device.vector_width_float = 1; /* lanes are work-items then */
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++)
        if (run_takes_of(n, sizeof problems / sizeof *problems, 2)) {
            struct trial t = {.problem = fixture_problem(problems[n].text), .seed = n + 1};
            if (t.problem.operation == CLATTN_FORWARD)
                t.family = naive.family;
            trial_pass(&f, &t);
        }
    fixture_close(&f);
}

enum { HEADS = 4, QUERIES = 5, KEYS = 33, DIM = 16, LIST = KEYS + 3 };

static void attend(struct fixture *f, const char *family, const char *text, const float *x,
                   const float *y, const int32_t *list, float *o)
{
    const clattn_problem p = fixture_problem(text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = x, .k = y, .v = y, .o = o, .topk_indices = list};

    cr_assert(clattn_attention_forward_host(f->context, &p, &options, &tensors) == CLATTN_SUCCESS,
              "%s", f->log.last);
}

/* All keys in order, with entries that are none among them: the bits of attention without lists. */
Test(topk, of_all_keys_is_dense) {
    static float x[HEADS * QUERIES * DIM], y[KEYS * DIM], dense[HEADS * QUERIES * DIM],
        listed[HEADS * QUERIES * DIM];
    static int32_t list[QUERIES * LIST];
    struct fixture f;

    for (size_t n = 0; n < sizeof x / sizeof *x; n++)
        x[n] = sinf((float)n);
    for (size_t n = 0; n < sizeof y / sizeof *y; n++)
        y[n] = cosf((float)(3 * n));
    for (int32_t n = 0; n < QUERIES * LIST; n++) {
        const int32_t place = n % LIST;
        list[n] = place % 12 == 11 ? (place == 11 ? INT32_MIN : KEYS) : place - place / 12;
    }
    fixture_open(&f);
    attend(&f, "naive", "fwd f32 h4/1 q5 k33 d16 causal=br", x, y, NULL, dense);
    attend(&f, "naive", "fwd f32 h4/1 q5 k33 d16 causal=br topk=36", x, y, list,
           listed); /* by a mask */
    cr_expect(zero(int, memcmp(dense, listed, sizeof dense)));
    attend(&f, "naive", "fwd f32 b5 h4/1 q1 k33 d16 k=0.528.16.1 v=0.528.16.1", x, y, NULL, dense);
    attend(&f, "naive", "fwd f32 b5 h4/1 q1 k33 d16 k=0.528.16.1 v=0.528.16.1 topk=36", x, y, list,
           listed); /* by rows */
    cr_expect(zero(int, memcmp(dense, listed, sizeof dense)));
    fixture_close(&f);
}

/* The same bits for any order of a list, and for keys that stand in it twice. */
Test(topk, have_one_result_in_any_order) {
    static float x[HEADS * QUERIES * DIM], y[KEYS * DIM], o[3][HEADS * QUERIES * DIM];
    static int32_t list[3][QUERIES * LIST];
    struct fixture f;

    for (size_t n = 0; n < sizeof x / sizeof *x; n++)
        x[n] = sinf((float)n);
    for (size_t n = 0; n < sizeof y / sizeof *y; n++)
        y[n] = cosf((float)(3 * n));
    for (int32_t n = 0; n < QUERIES * LIST; n++) {
        const int32_t place = n % LIST, other = LIST - 1 - place;
        list[0][n] = place < 20 ? place : -1;
        list[1][n] = other < 20 ? other : -1;
        list[2][n] = place * 7 % 20;
    }
    fixture_open(&f);
    for (int n = 0; n < 3; n++)
        attend(&f, NULL, "fwd f32 b5 h4/1 q1 k33 d16 k=0.528.16.1 v=0.528.16.1 topk=36", x, y,
               list[n], o[n]);
    cr_expect(zero(int, memcmp(o[0], o[1], sizeof o[0])));
    cr_expect(zero(int, memcmp(o[0], o[2], sizeof o[0])));
    fixture_close(&f);
}

/* The same of gradients by copies, in two executions. */
Test(topk, have_one_gradient_in_any_order) {
    enum { MANY = 66, FAR_KEYS = 900, PAIRS = HEADS * MANY };
    static float q[PAIRS * DIM], lse[PAIRS], k[FAR_KEYS * DIM];
    static float got[2][PAIRS * DIM + 2 * FAR_KEYS * DIM];
    static int32_t list[2][MANY * LIST];
    const clattn_problem p = fixture_problem("bwd f32 h4/1 q66 k900 d16 topk=36");
    struct ca_chosen_keys chosen;
    struct fixture f;

    cr_assert(ca_chosen_keys(&p, &chosen));
    cr_expect(eq(int, chosen.way, CA_BY_COPIES));
    cr_expect(eq(sz, chosen.executions, 2));
    for (size_t n = 0; n < sizeof q / sizeof *q; n++)
        q[n] = sinf((float)n);
    for (size_t n = 0; n < sizeof k / sizeof *k; n++)
        k[n] = cosf((float)(3 * n));
    for (int32_t n = 0; n < MANY * LIST; n++) {
        const int32_t place = n % LIST, key = place < 20 ? 40 * place + n / LIST : -1;
        list[0][n] = key;
        list[1][n + LIST - 1 - 2 * place] =
            key < 0 ? n / LIST : key; /* backwards, one of them 17 times */
    }
    fixture_open(&f);
    for (int n = 0; n < 2; n++) {
        const clattn_host_backward_tensors tensors = {.struct_size = sizeof tensors,
                                                      .q = q,
                                                      .k = k,
                                                      .v = k,
                                                      .o = q,
                                                      .lse = lse,
                                                      .d_o = q,
                                                      .dq = got[n],
                                                      .dk = got[n] + PAIRS * DIM,
                                                      .dv = got[n] + (PAIRS + FAR_KEYS) * DIM,
                                                      .topk_indices = list[n]};
        cr_assert(clattn_attention_backward_host(f.context, &p, NULL, &tensors) == CLATTN_SUCCESS,
                  "%s", f.log.last);
    }
    cr_expect(zero(int, memcmp(got[0], got[1], sizeof got[0])));
    cr_expect(got[0][PAIRS * DIM] != 0.0f);
    fixture_close(&f);
}

/* What is refused, with the sentence that says why. */
Test(topk, refusals) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"fwd f32 q4 k9 d8 topkheads", "there is no topk"},
        {"fwd f32 q4 k9 d8 blocks=2x2:9 topk=3", "topk excludes block lists"},
        {"fwd f32 q4 k9 d8 scores=raw topk=3", "topk excludes scores"},
        {"fwd f32 q4 k9 d8 invariant topk=3", "topk excludes invariant"},
        {"fwd f32 q4 k9 d8 topk=2147483648", "topk exceeds 2^31 - 1"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char reason[256] = "";
        clattn_problem p;
        cr_expect(clattn_problem_parse(cases[n].text, &p, reason, sizeof reason) ==
                  CLATTN_INVALID_PROBLEM);
        cr_expect(strstr(reason, cases[n].reason) != NULL, "%s: %s", cases[n].text, reason);
    }
}
