/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients by tiles of AMX, backward_cpu UNIT=amx: by the processor's instruction where it has one, and emulated as on
 * one that lacks it, which both must give the same bits; and what is chosen where it is lacking. The sweeps draw
 * more (CLATTN_TEST_FAMILY=backward_cpu UNIT=amx). */
#include "context/context.h"
#include "device/capacity.h"
#include "families/registry.h"
#include "tests/bf16/bf16_trials.h"
#include "tests/support/unoptimised.h"
#include "tune/measurer.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(backward_cpu_amx, .init = unoptimised, .timeout = 300);

/* Dims, queries and keys that end within a tile; all options between them. */
static const char *const cases[][2] = {
    {"d33/20 causal=br klen qlen sinks dsinks", "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=2"},
    {"d40/33 window=9,4 alibi softcap=4 dslopes q=bshd k=bshd do=bshd dk=bshd",
     "BLOCK_VECTORS=4 BLOCK_M=64 BLOCKS_PER_TILE=1"},
    {"d24 mask=bqk bias=f32:hqk dbias dropout=0.3", "BLOCK_VECTORS=6 BLOCK_M=32 BLOCKS_PER_TILE=1"},
    {"d64/72 blocks=7x9:60:h", "BLOCK_VECTORS=2 BLOCK_M=64 BLOCKS_PER_TILE=2"},
    {"d20/96 causal=11", /* the second block of keys is seen from query 21 on */
     "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=2"},
    {"d8/9 window=30,* totalq=150 totalkv=200", "BLOCK_VECTORS=2 BLOCK_M=32 BLOCKS_PER_TILE=4"},
    {"d65 mask=hqk", "BLOCK_VECTORS=2 BLOCK_M=96 BLOCKS_PER_TILE=2"},
    {"d128/16", "BLOCK_VECTORS=8 BLOCK_M=32 BLOCKS_PER_TILE=1"},
    {"d32 blocks=32x32:60:h", "BLOCK_VECTORS=2 BLOCK_M=64 BLOCKS_PER_TILE=1"},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

static struct trial make(const size_t number, const char *shape)
{
    char text[256];
    struct trial t = {.family = "backward_cpu UNIT=amx", .seed = 11 + number};

    snprintf(text, sizeof text, "bwd bf16 %s %s", cases[number][0], shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "SPLIT_K=1 %s", cases[number][1]);
    trial_fill(&t);
    return t;
}

/* NaN that some pairs see and others do not, though they share a tile with them; and what no
 * instruction for bf16 multiplies as IEEE does: subnormal operands, whose products may be 0. */
static void set_nans(const struct trial *t, const size_t b)
{
    for (size_t h = 0; h < t->problem.kv_heads; h++) {
        trial_set(t, TENSOR_K, b, h, 12, 3, NAN);
        trial_set(t, TENSOR_V, b, h, 40, 2, NAN);
    }
    for (size_t h = 0; h < t->problem.heads; h++) {
        trial_set(t, TENSOR_DO, b, h, 17, 5, NAN);
        trial_set(t, TENSOR_Q, b, h, 44, 4, NAN);
        trial_set(t, TENSOR_Q, b, h, 52, 1, 0x1p-130);
        trial_set(t, TENSOR_DO, b, h, 53, 2, -0x1p-128);
    }
}

static void pass(struct fixture *f, const size_t number, const char *shape, const int with_nans)
{
    struct trial t = make(number, shape);

    if (with_nans && !t.problem.total_q)
        set_nans(&t, 1);
    trial_run(f, &t);
    trial_check(&t);
    trial_free(&t);
}

ParameterizedTestParameters(backward_cpu_amx, options) {
    return bf16_parts(NUM_CASES);
}

ParameterizedTest(struct bf16_part *part, backward_cpu_amx, options) {
    static const char *const shapes[] = {"b2 h4/2 q70 k91", "b3 q1 k2", "b3 h2/1 q33 k17",
                                         "b2 h2 q64 k128"};
    struct fixture f;

    bf16_open(&f, part->emulated);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        pass(&f, part->number, shapes[n], 0);
    pass(&f, part->number, shapes[0], 1);
    pass(&f, part->number, shapes[3], 1);
    fixture_close(&f);
}

/* A mask that hides a block of keys from the first 16 of the 32 queries that are multiplied together, and from no
 * other: what these have of NaN stays with the keys that they see. */
Test(backward_cpu_amx, queries_before_a_range) {
    static const enum tensor_id ids[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO};
    struct trial t = {.problem = fixture_problem("bwd bf16 q64 k128 d24 mask=qk"),
                      .family = "backward_cpu UNIT=amx",
                      .tunables = "SPLIT_K=1 BLOCK_VECTORS=2 BLOCK_M=64 BLOCKS_PER_TILE=2",
                      .seed = 3};
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    trial_fill(&t);
    const struct host_tensor *mask = &t.tensor[TENSOR_MASK];
    for (size_t n = 0; n < sizeof ids / sizeof *ids; n++)
        trial_set_ordinary(&t, ids[n], 31 + n);
    for (size_t i = 0; i < 64; i++)
        for (size_t j = 0; j < 128; j++)
            mask->bytes[mask->offset + tensor_index(&mask->shape, 0, 0, i, j)] = i >= 16 || j >= 32;
    trial_set(&t, TENSOR_Q, 0, 0, 3, 5, NAN);
    trial_set(&t, TENSOR_DO, 0, 0, 7, 2, NAN);
    trial_run(&f, &t);
    trial_check(&t);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- the emulation is the instruction --------------------------------------------------------- */

static void run(struct trial *t, const int emulated)
{
    struct fixture f;

    bf16_open(&f, emulated);
    *t = make(7, "b2 h4/2 q70 k91");
    for (size_t n = 0; n < 16; n++) /* sums of any size */
        trial_set(t, TENSOR_K, 0, 0, n, n, ldexp(1.0, (int)n));
    for (size_t n = 0; n < 2; n++) { /* products that are flushed, which would count otherwise */
        trial_set(t, TENSOR_Q, 0, 0, 41 + n, n, 0x1p-130);
        trial_set(t, TENSOR_K, 0, 0, 5 + n, n, 0x1p127);
        trial_set(t, TENSOR_K, 0, 0, 7 + n, 2 + n, 0x1p-130);
        trial_set(t, TENSOR_Q, 0, 0, 43 + n, 2 + n, 0x1p127);
    }
    trial_run(&f, t);
    fixture_close(&f);
}

Test(backward_cpu_amx, emulation_has_the_instructions_bits) {
    static const enum tensor_id results[] = {TENSOR_DQ, TENSOR_DK, TENSOR_DV};
    struct trial one, other;

    bf16_need_tiles();
    run(&one, 0);
    run(&other, 1);
    for (size_t n = 0; n < sizeof results / sizeof *results; n++) {
        const struct host_tensor *x = one.tensor + results[n], *y = other.tensor + results[n];
        cr_expect(x->num_bytes > 0 && memcmp(x->got, y->got, x->num_bytes) == 0, "%zu", n);
    }
    trial_free(&one);
    trial_free(&other);
}

/* ---- choosing --------------------------------------------------------------------------------- */

/* A problem of real size that is judged by the library: its bound has room for what standard rounds. */
Test(backward_cpu_amx, the_self_check_allows_what_standard_rounds) {
    bf16_expect_judged_right("backward_cpu UNIT=amx", "bwd bf16 h2 q130 k200 d64");
}

/* With the instruction it is taken for standard problems; without it the next best. */
Test(backward_cpu_amx, is_chosen_where_there_is_a_matrix_unit) {
    static const char *const problem = "bwd bf16 h2 q40 k50 d16";
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    cr_expect_str_eq(bf16_choice(&f, problem, "avx512_bf16 amx_bf16"), "backward_cpu UNIT=amx");
    cr_expect_str_eq(bf16_choice(&f, "bwd bf16 h2 q40 k50 d16 strict", "avx512_bf16 amx_bf16"),
                     "backward_cpu UNIT=vector");
    cr_expect_str_eq(bf16_choice(&f, problem, "avx512_bf16"), "backward_cpu UNIT=pairs");
    cr_expect_str_eq(bf16_choice(&f, problem, ""), "backward_cpu UNIT=vector");
    fixture_close(&f);
}

Test(backward_cpu_amx, refusals) {
    static const struct family_refusal refused[] = {{"bwd f32 q3 k5 d8", NULL, "bf16 alone"},
                                                    {"bwd f16 q3 k5 d8", NULL, "bf16 alone"},
                                                    {"bwd bf16 q3 k5 d8 strict", NULL, "strict"},
                                                    {"fwd bf16 q3 k5 d8", NULL, "backward only"}};

    families_expect_refusals("backward_cpu UNIT=amx", refused, sizeof refused / sizeof *refused);
}
