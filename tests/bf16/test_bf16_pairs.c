/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16 pairs: fused_cpu UNIT=pairs, backward_cpu UNIT=pairs and projection_cpu UNIT=pairs, by the processor's instruction where it has one, and
 * emulated as on one that lacks it, which both must give the same bits; and what is chosen where it is
 * lacking. The sweeps draw more (CLATTN_TEST_FAMILY=fused_cpu UNIT=pairs and so on). */
#include "bench/judge/row.h"
#include "context/context.h"
#include "device/capacity.h"
#include "families/registry.h"
#include "tests/bf16/bf16_trials.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/projection_trial.h"
#include "tune/measurer.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(bf16_pairs, .init = unoptimised, .timeout = 300);

static const struct bf16_program programs[] = {
    {"SIMD_WIDTH=16 BLOCK_VECTORS=2 QK_KEYS=4 PV_COLUMNS=5 BLOCK_N=24 BLOCKS_PER_TILE=2",
     "d33/20 causal=br klen qlen lse odtype=f32"},
    {"SIMD_WIDTH=16 BLOCK_VECTORS=3 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=48 BLOCKS_PER_TILE=1",
     "d64 window=9,4 alibi softcap=4 sinks lse q=bshd k=bshd v=bshd o=bshd"},
    {"SIMD_WIDTH=16 BLOCK_VECTORS=4 QK_KEYS=6 PV_COLUMNS=6 BLOCK_N=24 BLOCKS_PER_TILE=2",
     "d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse"},
    {"SIMD_WIDTH=16 BLOCK_VECTORS=1 QK_KEYS=12 PV_COLUMNS=12 BLOCK_N=24 BLOCKS_PER_TILE=4",
     "d9/8 window=30,* totalq=300 totalkv=300"},
    {"SIMD_WIDTH=16 BLOCK_VECTORS=2 QK_KEYS=8 PV_COLUMNS=4 BLOCK_N=24 BLOCKS_PER_TILE=2",
     "d32 page=5 pages=90 klen causal=br sinks"},
    {"SIMD_WIDTH=16 BLOCK_VECTORS=2 QK_KEYS=8 PV_COLUMNS=8 BLOCK_N=48 BLOCKS_PER_TILE=1",
     "d24 blocks=16x7:60:h mask=qk lse"},
};
enum { NUM_PROGRAMS = sizeof programs / sizeof *programs };

ParameterizedTestParameters(bf16_pairs, options) {
    return bf16_parts(NUM_PROGRAMS);
}

ParameterizedTest(struct bf16_part *part, bf16_pairs, options) {
    struct fixture f;

    bf16_open(&f, part->emulated);
    bf16_pass_program(&f, "fused_cpu UNIT=pairs", &programs[part->number], 5 + part->number);
    fixture_close(&f);
}

/* ---- gradients -------------------------------------------------------------------------------- */

/* Odd dims, and tiles whose queries and keys end within a pair; all options between them. */
static const char *const gradients[][2] = {
    {"d33/20 causal=br klen qlen sinks dsinks",
     "BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=5 BLOCK_M=24 DQ_ROWS=3 DQ_VECTORS=3 BLOCKS_PER_TILE=2"},
    {"d40/33 window=9,4 alibi softcap=4 dslopes q=bshd k=bshd do=bshd dk=bshd",
     "BLOCK_VECTORS=1 QK_ROWS=8 DKV_COLUMNS=8 BLOCK_M=24 DQ_ROWS=4 DQ_VECTORS=2 BLOCKS_PER_TILE=4"},
    {"d24 mask=bqk bias=f32:hqk dbias dropout=0.3",
     "BLOCK_VECTORS=3 QK_ROWS=6 DKV_COLUMNS=6 BLOCK_M=48 DQ_ROWS=6 DQ_VECTORS=2 BLOCKS_PER_TILE=1"},
    {"d64 blocks=7x9:60:h", "BLOCK_VECTORS=1 QK_ROWS=12 DKV_COLUMNS=8 BLOCK_M=24 DQ_ROWS=3 "
                            "DQ_VECTORS=4 BLOCKS_PER_TILE=2"},
    {"d20 causal=11", /* the second block of keys is seen from query 21 on */
     "BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=5 BLOCK_M=24 DQ_ROWS=6 DQ_VECTORS=2 BLOCKS_PER_TILE=2"},
    {"d8/9 window=30,* totalq=150 totalkv=200",
     "BLOCK_VECTORS=2 QK_ROWS=4 DKV_COLUMNS=4 BLOCK_M=24 DQ_ROWS=8 DQ_VECTORS=1 BLOCKS_PER_TILE=1"},
};
enum { NUM_GRADIENTS = sizeof gradients / sizeof *gradients };

static void pass_gradients(struct fixture *f, const size_t number, const char *shape,
                           const int with_nans)
{
    char text[256];
    struct trial t = {.family = "backward_cpu UNIT=pairs", .seed = 7 + number};

    snprintf(text, sizeof text, "bwd bf16 %s %s", gradients[number][0], shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "SIMD_WIDTH=16 SPLIT_K=1 %s", gradients[number][1]);
    trial_fill(&t);
    for (size_t h = 0; with_nans && h < t.problem.kv_heads; h++) {
        trial_set(&t, TENSOR_K, 0, h, 12, 3, NAN);
        trial_set(&t, TENSOR_DO, 0, h, 17, 5, NAN);
        trial_set(&t, TENSOR_Q, 1, h, 20, 4, NAN);
        trial_set(&t, TENSOR_V, 1, h, 9, 2, 0x1p-130);
    }
    trial_run(f, &t);
    trial_check(&t);
    trial_free(&t);
}

ParameterizedTestParameters(bf16_pairs, gradients) {
    return bf16_parts(NUM_GRADIENTS);
}

ParameterizedTest(struct bf16_part *part, bf16_pairs, gradients) {
    static const char *const shapes[] = {"b2 h4/2 q70 k91", "b3 q1 k2", "b3 h2/1 q33 k17"};
    struct fixture f;

    bf16_open(&f, part->emulated);
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        pass_gradients(&f, part->number, shapes[n], 0);
    if (part->number < 2)
        pass_gradients(&f, part->number, shapes[0], 1);
    fixture_close(&f);
}

/* ---- projections ------------------------------------------------------------------------------ */

/* Odd depths and parts of it, and all ways to pack; then x whose pairs are read where they lie, from heads that strides keep apart
 * and at parts of the depth that begin within a head, and x whose rows do not begin at pairs. */
static const char *const projections[][2] = {
    {"proj bf16 b2 h3/1 q37 d131/50 bias=f32",
     "SIMD_WIDTH=16 REGISTER_VECTORS=2 REGISTER_ROWS=4 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32 SPLIT_K=1"},
    {"proj bf16 b2 h3/5 q37 d33/20 w=oi x=bshd y=bshd accumulate",
     "SIMD_WIDTH=16 REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_K=128 BLOCK_M=32 BLOCK_N=64 "
     "SPLIT_K=2"},
    {"proj bf16 b2 h2 q67 d75/33 x=bhds y=bhds",
     "SIMD_WIDTH=16 REGISTER_VECTORS=1 REGISTER_ROWS=12 BLOCK_K=64 BLOCK_M=64 BLOCK_N=32 "
     "SPLIT_K=1"},
    {"proj bf16 b2 h2/3 q17 d45/35 x=0.0.90.2 w=0.0.0.7",
     "SIMD_WIDTH=16 REGISTER_VECTORS=2 REGISTER_ROWS=8 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32 SPLIT_K=2"},
    {"proj bf16 b2 h2/3 q37 d46/34 bias=f32",
     "SIMD_WIDTH=16 REGISTER_VECTORS=2 REGISTER_ROWS=6 BLOCK_K=64 BLOCK_M=16 BLOCK_N=32 SPLIT_K=2"},
    {"proj bf16 h2/3 q17 d90/35 w=oi accumulate x=9000.4000.152.1",
     "SIMD_WIDTH=16 REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_K=64 BLOCK_M=32 BLOCK_N=64 SPLIT_K=1"},
    {"proj bf16 h2/3 q17 d91/35 w=oi x=9000.4000.152.1",
     "SIMD_WIDTH=16 REGISTER_VECTORS=2 REGISTER_ROWS=4 BLOCK_K=64 BLOCK_M=32 BLOCK_N=64 SPLIT_K=1"},
    {"proj bf16 h2/3 q17 d90/35 w=oi x=9000.4000.151.1",
     "SIMD_WIDTH=16 REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_K=64 BLOCK_M=32 BLOCK_N=64 SPLIT_K=1"},
};

enum { NUM_PROJECTIONS = sizeof projections / sizeof *projections };

ParameterizedTestParameters(bf16_pairs, projections) {
    return bf16_parts(NUM_PROJECTIONS);
}

ParameterizedTest(struct bf16_part *part, bf16_pairs, projections) {
    struct projection_trial t = {.problem = fixture_problem(projections[part->number][0]),
                                 .family = "projection_cpu UNIT=pairs",
                                 .seed = 3 + part->number,
                                 .poisoned = part->number % 2 == 0};
    struct fixture f;

    snprintf(t.tunables, sizeof t.tunables, "%s", projections[part->number][1]);
    bf16_open(&f, part->emulated);
    projection_pass(&f, &t);
    fixture_close(&f);
}

/* ---- the emulation is the instruction --------------------------------------------------------- */

Test(bf16_pairs, emulation_has_the_instructions_bits) {
    bf16_need_pairs();
    bf16_compare_with_emulation("fused_cpu UNIT=pairs", &programs[0]);
}

/* ---- precision -------------------------------------------------------------------------------- */

/* Elements of o that lie outside of the bounds of a problem that is strict, or not. */
static size_t outside(struct trial *t, const int strict)
{
    const struct tensor_view view = trial_sent(t);
    clattn_problem p = t->problem;
    struct reference_row row;
    size_t count = 0;

    p.strict = strict;
    cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
    for (size_t i = 0; i < p.seq_q; i++) {
        reference_row_compute(&p, &view, 0, 0, i, &row);
        for (size_t d = 0; d < p.dim_v; d++)
            count += !within(trial_value(t, TENSOR_O, 0, 0, i, d), row.o[d]);
    }
    reference_row_close(&row);
    return count;
}

/* Weights that are rounded are seen by the strict bounds, and what strict problems get is within them. */
Test(bf16_pairs, standard_is_not_strict) {
    static const char *const families[] = {"fused_cpu UNIT=pairs", "fused_cpu UNIT=vector"};

    for (size_t n = 0; n < 2; n++) {
        struct trial t = {.problem = fixture_problem("fwd bf16 q33 k65 d16 odtype=f32"),
                          .family = families[n],
                          .seed = 4};
        struct fixture f;
        bf16_open(&f, 1);
        trial_fill(&t);
        trial_run(&f, &t);
        cr_expect(outside(&t, 0) == 0, "%s", families[n]);
        cr_expect((outside(&t, 1) == 0) == (n == 1), "%s", families[n]);
        trial_free(&t);
        fixture_close(&f);
    }
}

/* A problem of real size that is judged by the library: its bound has room for what standard rounds. */
Test(bf16_pairs, the_self_check_allows_what_standard_rounds) {
    bf16_expect_judged_right("fused_cpu UNIT=pairs", "fwd bf16 h2 q65 k130 d64 odtype=f32");
}

/* ---- choosing --------------------------------------------------------------------------------- */

/* With the instruction it is taken for standard problems; without it, and where a matrix unit makes it slow,
 * the next best, by itself. */
Test(bf16_pairs, is_chosen_where_there_is_an_instruction) {
    static const struct {
        const char *problem, *with, *without;
    } rows[] = {
        {"fwd bf16 h2 q40 k50 d16", "fused_cpu UNIT=pairs", "fused_cpu UNIT=vector"},
        {"fwd bf16 h2 q40 k50 d16 strict", "fused_cpu UNIT=vector", "fused_cpu UNIT=vector"},
        {"proj bf16 q40 d16", "projection_cpu UNIT=pairs", "projection_cpu UNIT=vector"},
        {"bwd bf16 h2 q40 k50 d16", "backward_cpu UNIT=pairs", "backward_cpu UNIT=vector"},
        {"bwd bf16 h2 q40 k50 d16 strict", "backward_cpu UNIT=vector", "backward_cpu UNIT=vector"}};
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        cr_expect_str_eq(bf16_choice(&f, rows[n].problem, "avx512_bf16"), rows[n].with);
        cr_expect_str_eq(bf16_choice(&f, rows[n].problem, ""), rows[n].without);
        cr_expect(strstr(bf16_choice(&f, rows[n].problem, "avx512_bf16 amx_bf16"), "_dot") == NULL);
    }
    fixture_close(&f);
}

Test(bf16_pairs, refusals) {
    bf16_expect_forward_refusals("fused_cpu UNIT=pairs");
}
