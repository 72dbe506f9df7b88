/* SPDX-License-Identifier: Apache-2.0 */
/* split_cpu UNIT=amx and split_cpu UNIT=pairs, which multiply pairs of bf16 by tiles of AMX and by the instruction for pairs: with
 * the processor's instruction where it has one, and emulated, which both must give the same bits. The sweeps draw
 * more (CLATTN_TEST_FAMILY=split_cpu UNIT=pairs and so on). */
#include "context/context.h"
#include "device/capacity.h"
#include "tests/bf16/bf16_trials.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

TestSuite(split_cpu_amx, .init = unoptimised, .timeout = 300);
TestSuite(split_cpu_pairs, .init = unoptimised, .timeout = 300);

/* Odd dims, ranges and tiles that end within a step of 32 keys, and blocks of rows that are not full. */
static const struct bf16_program split_programs[] = {
    {"BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2",
     "d33/20 causal=br klen qlen lse odtype=f32"},
    {"BLOCK_M=32 BLOCK_N=64 PREFETCH_TILES=0 SPLIT_K=1",
     "d64 window=9,4 alibi softcap=4 sinks lse q=bshd k=bshd v=bshd o=bshd"},
    {"BLOCK_M=64 BLOCK_N=32 PREFETCH_TILES=2 SPLIT_K=1",
     "d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse"},
    {"BLOCK_M=16 BLOCK_N=128 PREFETCH_TILES=1 SPLIT_K=1",
     "d9/8 window=30,* totalq=300 totalkv=300"},
    {"BLOCK_M=16 BLOCK_N=32 PREFETCH_TILES=1 SPLIT_K=2",
     "d32 page=5 pages=90 klen causal=br sinks"},
    {"BLOCK_M=128 BLOCK_N=64 PREFETCH_TILES=1 SPLIT_K=1", "d16/80 scale=-0.3 k=0.0.0.1"},
};
enum { NUM_SPLIT_PROGRAMS = sizeof split_programs / sizeof *split_programs };

static void pass(const struct bf16_part *part, const char *family)
{
    struct fixture f;

    bf16_open(&f, part->emulated);
    bf16_pass_program(&f, family, &split_programs[part->number], 5 + part->number);
    fixture_close(&f);
}

ParameterizedTestParameters(split_cpu_amx, options) {
    return bf16_parts(NUM_SPLIT_PROGRAMS);
}

ParameterizedTest(struct bf16_part *part, split_cpu_amx, options) {
    pass(part, "split_cpu UNIT=amx");
}

ParameterizedTestParameters(split_cpu_pairs, options) {
    return bf16_parts(NUM_SPLIT_PROGRAMS);
}

ParameterizedTest(struct bf16_part *part, split_cpu_pairs, options) {
    pass(part, "split_cpu UNIT=pairs");
}

Test(split_cpu_amx, emulation_has_the_instructions_bits) {
    bf16_need_tiles();
    bf16_compare_with_emulation("split_cpu UNIT=amx", &split_programs[0]);
}

Test(split_cpu_pairs, emulation_has_the_instructions_bits) {
    bf16_need_pairs();
    bf16_compare_with_emulation("split_cpu UNIT=pairs", &split_programs[0]);
}

/* With more than 8 rows a kv head; with fewer most of a tile would be idle. */
static void expect_choices(const char *architecture, const char *family)
{
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h32/8 q4 k4096 d64", architecture), family);
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h32/8 q1 k4096 d64", architecture),
                     "split_cpu UNIT=vector");
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h32/8 q4 k4096 d64 strict", architecture),
                     "split_cpu UNIT=vector");
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h32/8 q4 k4096 d64", ""), "split_cpu UNIT=vector");
    fixture_close(&f);
}

Test(split_cpu_amx, is_chosen_for_several_rows) {
    expect_choices("avx512_bf16 amx_bf16", "split_cpu UNIT=amx");
}

Test(split_cpu_pairs, is_chosen_for_several_rows) {
    expect_choices("avx512_bf16", "split_cpu UNIT=pairs");
}

/* Of a problem of real size, by the library. */
Test(split_cpu_pairs, the_self_check_allows_what_standard_rounds) {
    bf16_expect_judged_right("split_cpu UNIT=pairs", "fwd bf16 h8/1 q4 k230 d64 odtype=f32");
}

static void expect_refusals(const char *family)
{
    static const struct family_refusal refused[] = {
        {"fwd f16 q3 k5 d8", NULL, "bf16 alone"},
        {"fwd bf16 q3 k5 d8 strict", NULL, "strict"},
        {"fwd bf16 q3 k5 d32 kcache=q8_0", NULL, "stored otherwise"},
        {"fwd bf16 q3 k5 d8 scores=raw", NULL, "score matrix"}};

    families_expect_refusals(family, refused, sizeof refused / sizeof *refused);
}

Test(split_cpu_amx, refusals) {
    expect_refusals("split_cpu UNIT=amx");
}

Test(split_cpu_pairs, refusals) {
    expect_refusals("split_cpu UNIT=pairs");
}
