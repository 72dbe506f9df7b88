/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of chosen keys ("Chosen keys" in clattn/problem.h). The sweep draws them with every other option. */
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

TestSuite(topk, .init = unoptimised, .timeout = 240);

/* Self-checked; guard bands, NaN in keys that no list has, and entries that are no key or stand twice. */
Test(topk, are_right) {
    static const char *const problems[] = {
        "fwd f32 b2 h4/2 q9 k70 d24 causal=br lse topk=20 topkheads",
        "fwd f16 b3 h8/1 q3 k100 d40/32 page=16 pages=30 klen qlen sinks lse topk=40",
        "fwd bf16 b3 h4/2 q20 k60 d32 causal=br totalq=50 totalkv=130 lse topk=17 topkheads",
        "fwd f32 b2 h4/1 q2 k90 d64 kcache=q8_0 vcache=q4_0 window=30,4 topk=33",
        "fwd f32 b2 h2 q5 k30 d8 mask=qk bias=f32:hqk alibi dropout=0.3 topk=60",
        "fwd f32 h2 q3 k0 d8 lse topk=4",
    };
    struct fixture f;

    fixture_open_checked(&f, "");
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++)
        if (run_takes(n, 2)) {
            struct trial t = {.problem = fixture_problem(problems[n]), .seed = n + 1};
            trial_pass(&f, &t);
        }
    fixture_close(&f);
}

enum { HEADS = 4, QUERIES = 5, KEYS = 33, DIM = 16, LIST = KEYS + 3 };

static void attend(struct fixture *f, const char *text, const float *x, const float *y,
                   const int32_t *list, float *o)
{
    const clattn_problem p = fixture_problem(text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "naive"};
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
    attend(&f, "fwd f32 h4/1 q5 k33 d16 causal=br", x, y, NULL, dense);
    attend(&f, "fwd f32 h4/1 q5 k33 d16 causal=br topk=36", x, y, list, listed);
    cr_expect(zero(int, memcmp(dense, listed, sizeof dense)));
    fixture_close(&f);
}

/* What is refused, with the sentence that says why. */
Test(topk, refusals) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"bwd f32 q4 k9 d8 topk=3", "topk is an option of forward only"},
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
