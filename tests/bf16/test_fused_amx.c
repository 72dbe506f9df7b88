/* SPDX-License-Identifier: Apache-2.0 */
/* fused_cpu UNIT=amx: products by tiles of AMX, by the processor's instruction where it has one, and
 * emulated as on one that lacks it, which both must give the same bits; and what is chosen where the
 * instruction, or the system's leave to use it, is lacking. The sweep draws more (CLATTN_TEST_FAMILY=fused_cpu UNIT=amx). */
#define _DEFAULT_SOURCE /* sigaltstack */
#include "context/context.h"
#include "device/capacity.h"
#include "os/processor.h"
#include "tests/bf16/bf16_trials.h"
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

TestSuite(fused_cpu_amx, .init = unoptimised, .timeout = 300);

static const struct bf16_program programs[] = {
    {"BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=2", "d33/20 causal=br klen qlen lse odtype=f32"},
    {"BLOCK_VECTORS=3 BLOCK_N=96 BLOCKS_PER_TILE=1",
     "d64 window=9,4 alibi softcap=4 sinks lse q=bshd k=bshd v=bshd o=bshd"},
    {"BLOCK_VECTORS=4 BLOCK_N=64 BLOCKS_PER_TILE=2",
     "d40/33 mask=bqk bias=f16:hqk dropout=0.3 lse"},
    {"BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=4", "d9/8 window=30,* totalq=300 totalkv=300"},
    {"BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=2", "d32 page=5 pages=90 klen causal=br sinks"},
    {"BLOCK_VECTORS=2 BLOCK_N=128 BLOCKS_PER_TILE=1", "d24 blocks=16x7:60:h mask=qk lse"},
    {"BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=1", "d16/40 scale=-0.3 window=*,20"},
    {"BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=1", "d32 scale=0 k=0.0.0.1 lse"},
    {"BLOCK_VECTORS=2 BLOCK_N=64 BLOCKS_PER_TILE=1", "d20/24 lse"},
    /* The first block's 16 keys are half a step, in whose other half are infinities that later blocks see. */
    {"BLOCK_VECTORS=1 BLOCK_N=64 BLOCKS_PER_TILE=4", "d17/7 causal=tl"},
};
enum { NUM_PROGRAMS = sizeof programs / sizeof *programs };

ParameterizedTestParameters(fused_cpu_amx, options) {
    return bf16_parts(NUM_PROGRAMS);
}

ParameterizedTest(struct bf16_part *part, fused_cpu_amx, options) {
    struct fixture f;

    bf16_open(&f, part->emulated);
    bf16_pass_program(&f, "fused_cpu UNIT=amx", &programs[part->number], 5 + part->number);
    fixture_close(&f);
}

Test(fused_cpu_amx, emulation_has_the_instructions_bits) {
    bf16_need_tiles();
    bf16_compare_with_emulation("fused_cpu UNIT=amx", &programs[0]);
}

Test(fused_cpu_amx, is_chosen_where_there_is_a_matrix_unit) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h2 q40 k50 d16", "avx512_bf16 amx_bf16"),
                     "fused_cpu UNIT=amx");
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h2 q40 k50 d16 strict", "avx512_bf16 amx_bf16"),
                     "fused_cpu UNIT=vector");
    cr_expect_str_eq(bf16_choice(&f, "fwd f16 h2 q40 k50 d16", "avx512_bf16 amx_bf16"),
                     "fused_cpu UNIT=vector");
    cr_expect_str_neq(bf16_choice(&f, "fwd bf16 h2 q40 k50 d16", "avx512_bf16"),
                      "fused_cpu UNIT=amx");
    /* Tiles that the system does not keep leave f32, since the processor's VDPBF16PS is slow as well. */
    cr_expect_str_eq(bf16_choice(&f, "fwd bf16 h2 q40 k50 d16", "avx512_bf16 amx_bf16_off"),
                     "fused_cpu UNIT=vector");
    fixture_close(&f);
}

/* The family of a plan, which is made. */
static void expect_family(struct fixture *f, const char *family)
{
    clattn_plan *plan = fixture_plan(f, "fwd bf16 h2 q40 k50 d16", NULL);
    clattn_plan_info info = {.struct_size = sizeof info};

    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    cr_expect_str_eq(family_of_plan(&info), family);
    clattn_plan_release(plan);
}

/* Linux grants no tiles to a process with a signal stack that could not hold them: the next family computes,
 * and tiles are used again once the stack is gone. */
Test(fused_cpu_amx, the_system_may_refuse) {
    static char memory[8192];
    const stack_t small = {.ss_sp = memory, .ss_size = sizeof memory};
    const stack_t none = {.ss_flags = SS_DISABLE};
    const clattn_plan_options forced = {.struct_size = sizeof forced,
                                        .family = "fused_cpu UNIT=amx"};
    const clattn_problem p = fixture_problem("fwd bf16 h2 q40 k50 d16");
    clattn_plan *plan = NULL;
    struct fixture f;

    bf16_need_tiles();
    fixture_open(&f);
    fixture_need_cpu(&f);
    cr_assert(sigaltstack(&small, NULL) == 0);
    if (ca_processor_grants_tiles())
        cr_skip_test("the system grants tiles whatever the signal stack");
    cr_expect(clattn_plan_create(f.context, &p, &forced, &plan) == CLATTN_UNSUPPORTED);
    cr_expect(plan == NULL);
    cr_expect(strstr(f.log.last, "operating system") != NULL, "%s", f.log.last);
    expect_family(&f, "fused_cpu UNIT=vector");
    cr_assert(sigaltstack(&none, NULL) == 0);
    expect_family(&f, "fused_cpu UNIT=amx");
    fixture_close(&f);
}

Test(fused_cpu_amx, refusals) {
    bf16_expect_forward_refusals("fused_cpu UNIT=amx");
}
