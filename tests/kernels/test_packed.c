/* SPDX-License-Identifier: Apache-2.0 */
/* Packed batches: the bits of each sequence alone, and starts that hold anything. The sweep draws packed
 * batches with every other option. */
#include "tests/support/families.h"
#include "tests/support/problems.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

TestSuite(packed, .timeout = 600);

/* ---- the same bits ---------------------------------------------------------------------------- */

enum { BATCH = 5, HEADS = 4, KV_HEADS = 2, ROWS = 150, KEYS = 170, DIM = 32 };

/* Five sequences, of 40, 0, 1, 70 and 33 queries, and 40, 9, 1, 75 and 40 keys. */
static const cl_int q_starts[BATCH + 1] = {2, 42, 42, 43, 113, 146};
static const cl_int kv_starts[BATCH + 1] = {0, 40, 49, 50, 125, 165};

struct results {
    float o[HEADS][ROWS][DIM], lse[HEADS][ROWS];
};

static float q[HEADS][ROWS][DIM], k[KV_HEADS][KEYS][DIM], v[KV_HEADS][KEYS][DIM];

static void execute(struct fixture *f, const clattn_problem *p, const char *family,
                    const char *tunables, clattn_host_forward_tensors tensors)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = family, .tunables = tunables};

    tensors.struct_size = sizeof tensors;
    cr_assert(clattn_attention_forward_host(f->context, p, &options, &tensors) == CLATTN_SUCCESS,
              "%s: %s", family, f->log.last);
}

/* Computes one sequence of the packed tensors by a problem of its own, and copies its lse to where the packed one lies. */
static void compute_alone(struct fixture *f, size_t b, const char *options, const char *family,
                          const char *tunables, struct results *results)
{
    const size_t row = (size_t)q_starts[b], rows = (size_t)q_starts[b + 1] - row;
    const size_t key = (size_t)kv_starts[b], keys = (size_t)kv_starts[b + 1] - key;
    float lse[HEADS][ROWS];
    char text[256];

    snprintf(text, sizeof text,
             "fwd f32 h%d/%d q%zu k%zu d%d q=0.%d.%d.1 k=0.%d.%d.1 v=0.%d.%d.1 o=%d.%d.%d.1 lse %s",
             HEADS, KV_HEADS, rows, keys, DIM, ROWS * DIM, DIM, KEYS * DIM, DIM, KEYS * DIM, DIM,
             HEADS * ROWS * DIM, ROWS * DIM, DIM, options);
    const clattn_problem p = fixture_problem(text);
    execute(f, &p, family, tunables,
            (clattn_host_forward_tensors){.q = q[0][row],
                                          .k = k[0][key],
                                          .v = v[0][key],
                                          .o = results->o[0][row],
                                          .lse = &lse[0][0]});
    for (size_t h = 0; h < HEADS; h++)
        memcpy(&results->lse[h][row], &lse[0][0] + h * rows, rows * sizeof(float));
}

static void fill(void)
{
    struct rng r = rng_seed(1);

    for (size_t n = 0; n < (size_t)HEADS * ROWS * DIM; n++)
        (&q[0][0][0])[n] = (float)rng_uniform(&r, -2, 2);
    for (size_t n = 0; n < (size_t)KV_HEADS * KEYS * DIM; n++) {
        (&k[0][0][0])[n] = (float)rng_uniform(&r, -2, 2);
        (&v[0][0][0])[n] = (float)rng_uniform(&r, -2, 2);
    }
}

static void expect_same_bits(struct fixture *f, const char *family, const char *options)
{
    static struct results packed, alone;
    clattn_plan_info info = {.struct_size = sizeof info};
    char text[256], tunables[512];

    snprintf(text, sizeof text, "fwd f32 b%d h%d/%d q70 k75 d%d totalq=%d totalkv=%d lse %s", BATCH,
             HEADS, KV_HEADS, DIM, ROWS, KEYS, options);
    const clattn_problem p = fixture_problem(text);
    clattn_plan *plan = fixture_plan(f, text, family);
    clattn_plan_describe(plan, &info);
    snprintf(tunables, sizeof tunables, "%s", info.tunables);
    clattn_plan_release(plan);
    memset(&packed, 0x55, sizeof packed);
    memset(&alone, 0x55, sizeof alone);
    execute(f, &p, family, tunables[0] ? tunables : NULL,
            (clattn_host_forward_tensors){.q = q,
                                          .k = k,
                                          .v = v,
                                          .o = packed.o,
                                          .lse = &packed.lse[0][0],
                                          .q_starts = q_starts,
                                          .kv_starts = kv_starts});
    for (size_t b = 0; b < BATCH; b++)
        if (q_starts[b] < q_starts[b + 1])
            compute_alone(f, b, options, family, tunables[0] ? tunables : NULL, &alone);
    cr_expect(memcmp(&packed, &alone, sizeof packed) == 0, "%s: '%s' has other bits", family, text);
}

static int takes_starts(const char *family)
{
    return family_takes(family, "fwd f32 b5 h4/2 q70 k75 d32 totalq=150 totalkv=170 lse");
}

FAMILY_TEST(packed, have_the_bits_of_each_alone, CLATTN_FORWARD, takes_starts, 6)
{
    const char *name = clattn_family_name(CLATTN_FORWARD, *family);
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, name);
    fill();
    expect_same_bits(&f, name, "causal=br");
    expect_same_bits(&f, name, "window=20,*");
    fixture_close(&f);
}

/* ---- starts that hold anything ----------------------------------------------------------------- */

/* Guard bands, NaN in rows that no sequence has, starts of every kind: by trials (trial_data.c). */
FAMILY_TEST(packed, starts_may_hold_anything, CLATTN_FORWARD, takes_starts, 8)
{
    static const char *const problems[] = {
        "fwd f32 b4 h4/2 q30 k40 d32 totalq=70 totalkv=90 causal=br klen qlen sinks lse",
        "fwd f32 b3 h2/1 q1 k200 d32 totalkv=300 lse",
        "fwd f32 b3 h2/1 q1 k200 d32 totalkv=300 lse dropout=0.25",
        ("fwd f16 b3 h2/1 q1 k200 d32 kcache=int8 vcache=e4m3 kscales=500.0.1.0 "
         "vscales=500.0.1.0 totalkv=300"),
    };

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_FORWARD, *family), problems,
                sizeof problems / sizeof *problems, 2, 8);
}

/* Guard bands, rows of no sequence that stay as they were, each element against double precision. */
FAMILY_TEST(packed, gradients, CLATTN_BACKWARD, NULL, 8)
{
    static const char *const problems[] = {
        "bwd f32 b3 h4/2 q20 k30 d32 causal=br totalq=50 totalkv=70",
        "bwd f32 b3 h4/2 q20 k30 d32 alibi sinks qlen klen dslopes dsinks dlse totalq=50",
        "bwd f32 b4 h2 q33 k40 d32/24 window=20,* dropout=0.3 totalkv=120",
    };

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_BACKWARD, *family), problems,
                sizeof problems / sizeof *problems, 0, 3);
}

/* As users compile it. With optimisation, PoCL 3.1 lets a group's threads store rows that do not
 * exist, where the kernel may return before its barriers and its last `if` ends with it
 * (tests/drivers/early_return.cl). */
DeviceTest(packed, optimised_gradients)
{
    struct trial t = {
        .problem = fixture_problem("bwd f32 b2 q21 d5 alibi totalq=33 dslopes"),
        .family = "backward_gpu UNIT=item",
        .tunables = "BLOCK_OWNED=16 BLOCK_STREAMED=8 THREADS_N=8 THREAD_M=4 BLOCK_K=8 STAGE_N=8",
        .seed = 1};

    fixture_need_groups_of(f, t.family);
    trial_pass(f, &t);
}

/* ---- what a developer is told ------------------------------------------------------------------ */

static const struct fixture_lists starts = {
    {offsetof(clattn_forward_tensors, q_starts), offsetof(clattn_forward_tensors, kv_starts)},
    {4, 4}};

DeviceTest(packed, a_developer_is_told_what_is_wrong)
{
    clattn_plan *plan = fixture_plan(f, "fwd f32 b3 h1 q5 k9 d8 totalq=12 totalkv=20", "naive");
    const cl_int sound[] = {0, 5, 5, 12}, negative[] = {-1, 5, 5, 10}, far[] = {0, 5, 10, 13},
                 falling[] = {0, 5, 4, 9}, keys[] = {2, 11, 11, 20}, longer[] = {0, 9, 19, 20};

    fixture_expect_lists(f, plan, &starts, (cl_int[]){0, 5, 5, 10}, keys, "");
    fixture_expect_lists(f, plan, &starts, negative, keys,
                         "q_starts[0] is -1 but must be from 0 to total_q, 12");
    fixture_expect_lists(f, plan, &starts, far, keys,
                         "q_starts[3] is 13 but must be from 0 to total_q, 12");
    fixture_expect_lists(f, plan, &starts, falling, keys,
                         "q_starts[2] is 4 but must be at least q_starts[1], 5");
    fixture_expect_lists(
        f, plan, &starts, sound, keys,
        "q_starts[3] is 12, 7 after q_starts[2], but a sequence has at most seq_q, 5");
    fixture_expect_lists(
        f, plan, &starts, (cl_int[]){0, 1, 2, 3}, longer,
        "kv_starts[2] is 19, 10 after kv_starts[1], but a sequence has at most seq_kv, 9");
    clattn_plan_release(plan);
}

/* ---- what is refused --------------------------------------------------------------------------- */

Test(packed, mistakes_are_named) {
    static const struct refused_text mistakes[] = {
        {"fwd f32 q1 k9 d8 totalq=2147483648", "total_q exceeds 2^31 - 1"},
        {"fwd f32 q1 k9 d8 totalkv=2147483648", "total_kv exceeds 2^31 - 1"},
        {"fwd f32 b0 q1 k9 d8 totalq=4", "total_q is given, but batch or seq_q is 0"},
        {"fwd f32 q1 k0 d8 totalkv=4", "total_kv is given, but batch or seq_kv is 0"},
        {"fwd f32 q1 k9 d8 totalkv=4 page=4", "page_size and total_kv exclude each other"},
        {"fwd f32 q1 k9 d8 totalkv=4 scores=raw",
         "scores are handed out of batches that are padded"},
        {"bwd f32 q1 k9 d8 totalq=4 bias=f32:qk dbias", "dbias excludes total_q and total_kv"},
        {"fwd f32 q1 k9 d8 totalq=4 blocks=2x2:4", "block_q excludes total_q and total_kv"},
    };

    problem_texts_refused(mistakes, sizeof mistakes / sizeof *mistakes);
}
