/* SPDX-License-Identifier: Apache-2.0 */
/* The unit that each device chooses, and the problems that units refuse. Nothing is compiled. */
#define _DEFAULT_SOURCE /* sigaltstack */
#include "context/context.h"
#include "create/choose.h"
#include "families/fragments.h"
#include "os/processor.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include "tests/units/unit_trials.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(unit_choices, .init = unoptimised, .timeout = 300);

static size_t index_of(const struct ca_family *family, const char *name)
{
    size_t n = 0;

    while (n < family->num_tunables && strcmp(family->tunables[n].name, name) != 0)
        n++;
    cr_assert(n < family->num_tunables, "no tunable %s", name);
    return n;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* The family that such a problem gets, untuned, on this machine's device if that were a CPU with these words
 * for an architecture. */
static const char *choice(struct fixture *f, const char *problem, const char *architecture)
{
    const clattn_plan_options untuned = {.struct_size = sizeof untuned,
                                         .flags = CLATTN_PLAN_UNTUNED};
    const struct ca_problem p = fixture_checked(problem);
    clattn_device_info *dev = &f->context->device;
    const clattn_device_info before = *dev;
    static struct ca_choices choices;
    char reason[512];

    dev->type = CL_DEVICE_TYPE_CPU;
    dev->vector_width_float = 16;
    snprintf(dev->architecture, sizeof dev->architecture, "%s", architecture);
    const clattn_status status =
        ca_choose(f->context, &p, &untuned, &choices, reason, sizeof reason);
    *dev = before;
    cr_assert(status == CLATTN_SUCCESS, "%s", reason);
    return choices.list[0].candidate.family->full_name;
}

/* With the instruction it is taken for standard problems; without it, and where a matrix unit makes that for pairs slow,
 * the next best, by itself. Few rows of a kv head would leave most of a tile idle. Tiles that the system does not keep
 * leave f32, since the processor's VDPBF16PS is slow as well. */
Test(unit_choices, of_CPUs) {
    static const struct {
        const char *problem, *tiles, *pairs, *neither;
    } rows[] = {{"fwd bf16 h2 q40 k50 d16", "fused_cpu UNIT=amx", "fused_cpu UNIT=pairs",
                 "fused_cpu UNIT=vector"},
                {"fwd bf16 h2 q40 k50 d16 strict", "fused_cpu UNIT=vector", "fused_cpu UNIT=vector",
                 "fused_cpu UNIT=vector"},
                {"fwd f16 h2 q40 k50 d40", "fused_cpu UNIT=vector", "fused_cpu UNIT=vector",
                 "fused_cpu UNIT=vector"},
                {"fwd f16 h2 q40 k50 d64", "fused_cpu UNIT=amx", "fused_cpu UNIT=vector",
                 "fused_cpu UNIT=vector"},
                {"fwd bf16 h2 q40 k50 d64 kcache=q8_0", "fused_cpu UNIT=amx",
                 "fused_cpu UNIT=vector", "fused_cpu UNIT=vector"},
                {"fwd bf16 h32/8 q4 k4096 d64", "split_cpu UNIT=amx", "split_cpu UNIT=pairs",
                 "split_cpu UNIT=vector"},
                {"fwd bf16 h32/8 q1 k4096 d64", "split_cpu UNIT=vector", "split_cpu UNIT=vector",
                 "split_cpu UNIT=vector"},
                {"fwd f16 h32/8 q4 k4096 d64", "split_cpu UNIT=vector", "split_cpu UNIT=vector",
                 "split_cpu UNIT=vector"},
                {"fwd f16 h64/1 q1 k4096 d64", "split_cpu UNIT=amx", "split_cpu UNIT=vector",
                 "split_cpu UNIT=vector"},
                {"fwd bf16 h32/8 q4 k4096 d64 strict", "split_cpu UNIT=vector",
                 "split_cpu UNIT=vector", "split_cpu UNIT=vector"},
                {"bwd bf16 h2 q40 k50 d16", "backward_cpu UNIT=amx", "backward_cpu UNIT=pairs",
                 "backward_cpu UNIT=vector"},
                {"bwd bf16 h2 q40 k50 d16 strict", "backward_cpu UNIT=vector",
                 "backward_cpu UNIT=vector", "backward_cpu UNIT=vector"},
                {"proj bf16 q40 d16", "projection_cpu UNIT=amx", "projection_cpu UNIT=pairs",
                 "projection_cpu UNIT=vector"},
                {"proj f16 q40 d16", "projection_cpu UNIT=vector", "projection_cpu UNIT=vector",
                 "projection_cpu UNIT=vector"}};
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        cr_expect_str_eq(choice(&f, rows[n].problem, "avx512_bf16 amx_bf16"), rows[n].tiles);
        cr_expect_str_eq(choice(&f, rows[n].problem, "avx512_bf16"), rows[n].pairs);
        cr_expect_str_eq(choice(&f, rows[n].problem, ""), rows[n].neither);
    }
    cr_expect_str_eq(choice(&f, rows[0].problem, "avx512_bf16 amx_bf16_off"),
                     "fused_cpu UNIT=vector");
    fixture_close(&f);
}

#if defined(__linux__)
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
Test(unit_choices, the_system_may_refuse) {
    static char memory[8192];
    const stack_t small = {.ss_sp = memory, .ss_size = sizeof memory};
    const stack_t none = {.ss_flags = SS_DISABLE};
    const clattn_plan_options forced = {.struct_size = sizeof forced,
                                        .family = "fused_cpu UNIT=amx"};
    const clattn_problem p = fixture_problem("fwd bf16 h2 q40 k50 d16");
    clattn_plan *plan = NULL;
    struct fixture f;

    unit_need_tiles();
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
#endif

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* A GPU's facts, as far as the families look at them. */
static clattn_device_info gpu(const char *architecture, const unsigned sub_group_size)
{
    clattn_device_info dev = {.struct_size = sizeof dev,
                              .type = CL_DEVICE_TYPE_GPU,
                              .compute_units = 132,
                              .sub_group_size = sub_group_size,
                              .max_work_group_size = 1024,
                              .max_work_item_sizes = {1024, 1024, 64},
                              .max_allocation_bytes = 1 << 30,
                              .local_memory_bytes = 48 << 10};

    snprintf(dev.architecture, sizeof dev.architecture, "%s", architecture);
    return dev;
}

/* Families of matrix instructions, and a problem of each. */
static const struct {
    const char *family, *problem;
} choices[] = {{"fused_gpu UNIT=mma", "fwd f16 b2 h8 q4096 k4096 d128 causal=br"},
               {"projection_gpu UNIT=mma", "proj bf16 b2 h8/1 q2048 d1024/128 bias=f32"},
               {"backward_gpu UNIT=mma", "bwd f16 b2 h8 q4096 k4096 d64 causal=br"}};

enum { NUM_CHOICES = sizeof choices / sizeof *choices };

/* Suggests for the device, and expects instruction, or, if 0, that it would be emulated. */
static void expect_instruction(size_t number, const clattn_device_info *dev, size_t instruction)
{
    const struct ca_family *family = ca_family_find(choices[number].family);
    const struct ca_problem p = fixture_checked(choices[number].problem);
    char reason[CA_REASON_BYTES];
    size_t values[CA_MAX_TUNABLES];

    ca_family_suggest(family, &p, dev, values);
    const char *why = ca_family_refusal(family, &p, dev, values, reason, sizeof reason);
    cr_expect(why == NULL, "%s on %s: %s", family->full_name, dev->architecture, why);
    cr_expect((family->preference(&p, dev) >= 0) == (instruction != 0));
    cr_expect(values[index_of(family, "EMULATE")] == (instruction == 0));
    if (instruction)
        cr_expect(values[index_of(family, "INSTRUCTION")] == instruction, "%s on %s",
                  family->full_name, dev->architecture);
}

Test(unit_choices, each_gpu_has_its_instruction) {
    static const struct {
        const char *architecture;
        unsigned sub_group_size;
        size_t instruction; /* 0: none is known */
    } gpus[] = {{"sm_75", 32, 0},   {"sm_80", 32, 1},   {"sm_90", 32, 1},   {"sm_120", 32, 1},
                {"gfx1030", 32, 0}, {"gfx1100", 32, 2}, {"gfx1100", 64, 0}, {"gfx90a", 64, 3},
                {"gfx942", 64, 3},  {"gfx906", 64, 0},  {"", 0, 0}};

    for (size_t n = 0; n < NUM_CHOICES * (sizeof gpus / sizeof *gpus); n++) {
        const clattn_device_info dev =
            gpu(gpus[n / NUM_CHOICES].architecture, gpus[n / NUM_CHOICES].sub_group_size);
        expect_instruction(n % NUM_CHOICES, &dev, gpus[n / NUM_CHOICES].instruction);
    }
}

Test(unit_choices, intel_says_it_by_an_extension) {
    for (size_t n = 0; n < 2 * NUM_CHOICES; n++) {
        const unsigned lanes = n < NUM_CHOICES ? 8 : 16;
        clattn_device_info dev = gpu("intel_12.55", lanes);
        expect_instruction(n % NUM_CHOICES, &dev, 0);
        snprintf(dev.extensions, sizeof dev.extensions,
                 "cl_intel_subgroups cl_intel_subgroup_matrix_multiply_accumulate");
        expect_instruction(n % NUM_CHOICES, &dev, lanes == 8 ? 5 : 6);
    }
}

/* Warpgroups are Hopper's alone, for whole ones of queries. */
Test(unit_choices, hopper_has_warpgroups) {
    static const struct {
        const char *architecture, *problem;
        int preference; /* that of fused_gpu UNIT=mma is 95 */
    } rows[] = {{"sm_90", "fwd f16 b2 h8 q4096 k4096 d128 causal=br", 96},
                {"sm_90", "fwd bf16 b2 h8 q64 k4096 d64 mask=qk", 96},
                {"sm_90", "fwd f16 b2 h8 q4096 k4096 d80 dropout=0.1", 96},
                {"sm_90", "fwd f16 b2 h8 q32 k4096 d128", 80},
                {"sm_80", "fwd f16 b2 h8 q4096 k4096 d128", -1},
                {"sm_100", "fwd f16 b2 h8 q4096 k4096 d128", -1},
                {"", "fwd f16 b2 h8 q4096 k4096 d128", -1}};
    const struct ca_family *family = ca_family_find("fused_gpu UNIT=warpgroup");

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const struct ca_problem p = fixture_checked(rows[n].problem);
        const clattn_device_info dev = gpu(rows[n].architecture, 32);
        size_t values[CA_MAX_TUNABLES];
        char reason[CA_REASON_BYTES];
        cr_expect(family->preference(&p, &dev) == rows[n].preference, "%s: %s",
                  rows[n].architecture, rows[n].problem);
        ca_family_suggest(family, &p, &dev, values);
        const char *why = ca_family_refusal(family, &p, &dev, values, reason, sizeof reason);
        cr_expect((why == NULL) == (strcmp(rows[n].architecture, "sm_80") != 0 &&
                                    strcmp(rows[n].architecture, "sm_100") != 0),
                  "%s: %s", rows[n].architecture, why ? why : "taken");
        const char *target = family->ptx_target(values);
        if (rows[n].preference >= 0)
            cr_expect_str_eq(target, "sm_90a");
    }
}

/* Gradients by warpgroups for what their registers hold. Few rows of a kv head go to matrix instructions from 8 on, or
 * from one on where they are copied in the background. */
Test(unit_choices, of_GPUs) {
    static const char other[] = "";
    static const struct {
        const char *profile, *problem, *family; /* other: not split_gpu UNIT=mma */
    } rows[] = {
        {"sm_90", "bwd f16 b2 h8 q4096 k4096 d128 causal=br", "backward_gpu UNIT=warpgroup"},
        {"sm_90", "bwd bf16 b2 h8/2 q4096 k4096 d64", "backward_gpu UNIT=warpgroup"},
        {"sm_90", "bwd bf16 b2 h8 q4096 k4096 d80", "backward_gpu UNIT=mma"},
        {"sm_90", "bwd f16 b2 h8 q32 k32 d128", "backward_gpu UNIT=mma"},
        {"sm_86", "bwd f16 b2 h8 q4096 k4096 d128", "backward_gpu UNIT=mma"},
        {"sm_90", "fwd f16 h32/8 q1 k4096 d128", "split_gpu UNIT=mma"},
        {"gfx90a", "fwd f16 h32/8 q1 k4096 d128", other},
        {"sm_90", "fwd f16 h32/4 q1 k4096 d128", "split_gpu UNIT=mma"},
        {"sm_90", "fwd f16 h32/8 q4 k4096 d128", "split_gpu UNIT=mma"},
        {"sm_86", "fwd bf16 h64/8 q16 k4096 d64", "split_gpu UNIT=mma"},
        {"sm_90", "fwd f16 b8 h32/8 q1024 k4096 d128", other},
        {"sm_90", "fwd f16 h32/4 q1 k100 d128", other},
        {"sm_90", "fwd f16 h32/8 q512 k4096 d128 page=16 pages=256", other},
        {"sm_90", "fwd bf16 h128/1 q1 k4096 d576/512", "split_gpu UNIT=mma"},
        {"gfx90a", "fwd bf16 h128/1 q1 k4096 d576/512", "split_gpu UNIT=mma"},
        {"gfx942", "fwd f16 h32/4 q1 k4096 d128", "split_gpu UNIT=mma"},
        {"gfx1100", "fwd f16 h32/4 q8 k4096 d128", "split_gpu UNIT=mma"},
        {"intel_arc_a750", "fwd f16 h32/4 q1 k4096 d128", "split_gpu UNIT=mma"},
        {"sm_90", "fwd f32 h16 q4096 k4096 d128", "fused_gpu UNIT=warpgroup"},
        {"sm_90", "fwd f32 h16 q4096 k4096 d80", "fused_gpu UNIT=mma"},
        {"sm_90", "fwd f32 h16 q4096 k4096 d64 blocks=64x64:640", "fused_gpu UNIT=mma"},
        {"sm_90", "fwd f32 h16 q4096 k4096 d64 blocks=128x128:160", "fused_gpu UNIT=warpgroup"},
        {"sm_90", "fwd f32 b8 h16 q64 k4096 d128", "fused_gpu UNIT=item"},
        {"sm_86", "fwd f32 h16 q4096 k4096 d64", "fused_gpu UNIT=item"},
        {"gfx942", "fwd f32 h16 q4096 k4096 d128", "fused_gpu UNIT=item"},
        {"sm_90", "proj f32 q4096 d4096", "projection_gpu UNIT=warpgroup"},
        {"sm_90", "proj f32 q128 d4096", "projection_gpu UNIT=item"},
        {"sm_90", "proj f32 q512 d512", "projection_gpu UNIT=item"},
        {"gfx942", "proj f32 q4096 d4096", "projection_gpu UNIT=mma"},
        {"sm_86", "proj f32 q4096 d4096", "projection_gpu UNIT=item"},
        {"gfx1100", "proj f32 q4096 d4096", "projection_gpu UNIT=item"},
    };
    const struct ca_family *split = ca_family_find("split_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const struct profile profile = profile_named(rows[n].profile);
        const struct ca_problem p = fixture_checked(rows[n].problem);
        const struct ca_family *best = family_untuned(&p, &profile.info);
        char reason[CA_REASON_BYTES];
        size_t values[CA_MAX_TUNABLES];
        cr_expect(rows[n].family == other ? best != split
                                          : strcmp(best->full_name, rows[n].family) == 0,
                  "%s on %s: %s", rows[n].problem, rows[n].profile, best->full_name);
        if (p.normal.operation != CLATTN_FORWARD || p.normal.dtype == CLATTN_F32)
            continue;
        ca_family_suggest(split, &p, &profile.info, values);
        const char *why =
            ca_family_refusal(split, &p, &profile.info, values, reason, sizeof reason);
        cr_expect(why == NULL, "%s on %s: %s", rows[n].problem, rows[n].profile, why);
    }
}

/* Tunables with which compilers spilled registers are not chosen (tests/offline.sh shows the
 * spills). Dims are divided for that reason alone. */
Test(unit_choices, dims_are_divided_where_registers_are_few) {
    static const struct {
        const char *profile, *problem;
        size_t dim_groups;
    } chosen[] = {{"sm_90", "bwd f16 h16 q2048 k2048 d128", 1},
                  {"sm_90", "bwd f16 h16 q2048 k2048 d128 mask=qk bias=f16:qk", 2},
                  {"sm_90", "bwd f16 h16 q2048 k2048 d256", 2},
                  {"gfx1100", "bwd f16 h16 q2048 k2048 d64", 1},
                  {"gfx1100", "bwd f16 h16 q2048 k2048 d128", 2},
                  {"gfx90a", "bwd f16 h16 q2048 k2048 d128", 1}};
    const struct ca_family *family = ca_family_find("backward_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof chosen / sizeof *chosen; n++) {
        const struct profile profile = profile_named(chosen[n].profile);
        const struct ca_problem p = fixture_checked(chosen[n].problem);
        size_t values[CA_MAX_TUNABLES];
        ca_family_suggest(family, &p, &profile.info, values);
        const char *why = family->reject(&p, &profile.info, values);
        cr_expect(why == NULL, "%s on %s: %s", chosen[n].problem, chosen[n].profile, why);
        cr_expect(values[index_of(family, "DIM_GROUPS")] == chosen[n].dim_groups, "%s on %s: %zu",
                  chosen[n].problem, chosen[n].profile, values[index_of(family, "DIM_GROUPS")]);
    }
}

struct chosen {
    const char *profile, *problem, *family, *tunable;
    size_t value;
};

static void expect_chosen(const struct chosen *chosen, const size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const struct profile profile = profile_named(chosen[n].profile);
        const struct ca_problem p = fixture_checked(chosen[n].problem);
        const struct ca_family *family = ca_family_find(chosen[n].family);
        size_t values[CA_MAX_TUNABLES];
        ca_family_suggest(family, &p, &profile.info, values);
        const size_t value = values[index_of(family, chosen[n].tunable)];
        cr_expect(value == chosen[n].value, "%s on %s: %s=%zu", chosen[n].problem,
                  chosen[n].profile, chosen[n].tunable, value);
    }
}

/* A tile spans no two blocks of lists, of which one may not be listed. */
Test(unit_choices, tiles_lie_in_blocks_of_lists) {
    static const struct chosen chosen[] = {
        {"sm_90", "fwd f16 h16 q4096 k4096 d128", "fused_gpu UNIT=warpgroup", "SUB_GROUPS", 8},
        {"sm_90", "fwd f16 h16 q4096 k4096 d128 blocks=128x128:160", "fused_gpu UNIT=warpgroup",
         "PRODUCER", 1},
        {"sm_90", "fwd f16 h16 q4096 k4096 d128 blocks=64x64:640", "fused_gpu UNIT=warpgroup",
         "SUB_GROUPS", 4},
        {"sm_90", "fwd f16 h16 q4096 k4096 d64 blocks=64x64:640", "fused_gpu UNIT=warpgroup",
         "BLOCK_N", 64},
        {"sm_86", "fwd f16 h16 q4096 k4096 d64", "fused_gpu UNIT=mma", "M_FRAGMENTS", 2},
        {"sm_86", "fwd f16 h16 q4096 k4096 d64 blocks=64x64:640", "fused_gpu UNIT=mma",
         "M_FRAGMENTS", 1},
        {"gfx1030", "fwd f32 h16 q4096 k4096 d128", "fused_gpu UNIT=item", "BLOCK_N", 128},
        {"gfx1030", "fwd f32 h16 q4096 k4096 d128 blocks=64x64:640", "fused_gpu UNIT=item",
         "BLOCK_N", 64}};

    expect_chosen(chosen, sizeof chosen / sizeof *chosen);
}

/* Tiles are smaller for options with which larger ones spilled (tests/offline.sh shows the spills), and for no others. */
Test(unit_choices, tiles_are_smaller_where_options_spilled) {
    static const struct chosen chosen[] = {
        {"intel_arc_a750", "fwd f16 h16 q4096 k4096 d128", "fused_gpu UNIT=mma", "BLOCK_N", 32},
        {"intel_arc_a750", "fwd f16 h16 q4096 k4096 d64 blocks=64x64:640", "fused_gpu UNIT=mma",
         "BLOCK_N", 16},
        {"intel_arc_a750", "fwd bf16 h16 q4096 k4096 d64", "fused_gpu UNIT=mma", "BLOCK_N", 16},
        {"intel_arc_a750", "fwd f16 h8 q1024 k1024 d80 softcap=30", "fused_gpu UNIT=mma", "BLOCK_N",
         16},
        {"intel_arc_a750", "fwd bf16 h32/8 q16 k32768 d128 causal=br", "split_gpu UNIT=mma",
         "M_FRAGMENTS", 1},
        {"intel_arc_a750", "bwd f16 h16 q2048 k2048 d40", "backward_gpu UNIT=mma", "DIM_GROUPS", 1},
        {"intel_arc_a750", "bwd f16 h16 q2048 k2048 d40 bias=f32:hqk", "backward_gpu UNIT=mma",
         "DIM_GROUPS", 2},
        {"sm_90", "bwd f32 h8 q1024 k1024 d80 alibi", "backward_gpu UNIT=item", "THREAD_M", 8},
        {"sm_90", "bwd f32 h8 q1024 k1024 d80 softcap=30 alibi", "backward_gpu UNIT=item",
         "THREAD_M", 4},
        {"sm_90", "bwd2 f16 h8 q512 d128", "double_backward", "ROW_ITEMS", 32},
        {"sm_90", "bwd2 f16 h8 q512 d256", "double_backward", "OWNED", 2},
        {"intel_arc_a750", "bwd2 f16 h8 q512 d128", "double_backward", "OWNED", 1}};

    expect_chosen(chosen, sizeof chosen / sizeof *chosen);
}

/* Tunables with which compilers spilled registers are refused, and not chosen: tests/offline.sh
 * shows the spills. */
Test(unit_choices, spills_are_known) {
    static const struct {
        const char *architecture, *problem;
        size_t block_n, q_resident, m_fragments;
        int taken;
    } limits[] = {{"gfx1100", "fwd f16 q64 k64 d128", 64, 0, 1, 1},
                  {"gfx1100", "fwd f16 q64 k64 d128", 64, 1, 1, 0},
                  {"gfx1100", "fwd f16 q64 k64 d64", 64, 0, 2, 0},
                  {"gfx1100", "fwd f16 q64 k64 d64 dropout=0.1", 64, 0, 1, 0},
                  {"sm_90", "fwd f16 q64 k64 d128", 64, 1, 1, 1},
                  {"sm_90", "fwd f16 q64 k64 d128 mask=qk", 64, 1, 1, 0}};
    const struct ca_family *family = ca_family_find("fused_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof limits / sizeof *limits; n++) {
        const struct ca_problem p = fixture_checked(limits[n].problem);
        const clattn_device_info dev = gpu(limits[n].architecture, 32);
        size_t values[CA_MAX_TUNABLES];
        ca_family_suggest(family, &p, &dev, values);
        cr_expect(family->reject(&p, &dev, values) == NULL);
        values[index_of(family, "BLOCK_N")] = limits[n].block_n;
        values[index_of(family, "Q_RESIDENT")] = limits[n].q_resident;
        values[index_of(family, "M_FRAGMENTS")] = limits[n].m_fragments;
        values[index_of(family, "SUB_GROUPS")] = 2; /* so that local memory has room */
        const char *why = family->reject(&p, &dev, values);
        cr_expect((why == NULL) == limits[n].taken, "%s, %s: %s", limits[n].architecture,
                  limits[n].problem, why ? why : "taken");
        cr_expect(limits[n].taken || (why && strstr(why, "spilled")), "%s", why);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refused {
    const char *family;
    struct family_refusal what;
};

static void expect_refusals(const struct refused *refused, const size_t count)
{
    for (size_t n = 0; n < count; n++)
        families_expect_refusals(refused[n].family, &refused[n].what, 1);
}

/* Problems that these units refuse: most take no more than forward attention in bf16 of standard precision. The last one
 * is refused by the fused units alone. */
Test(unit_choices, refusals_of_CPUs) {
    static const char *const forward[] = {"fused_cpu UNIT=pairs", "split_cpu UNIT=pairs"};
    static const struct family_refusal refused[] = {
        {"fwd f32 q3 k5 d8", NULL, "bf16 alone"},
        {"fwd f16 q3 k5 d8", NULL, "bf16 alone"},
        {"fwd bf16 q3 k5 d8 strict", NULL, "strict"},
        {"fwd bf16 q3 k5 d32 kcache=q8_0", NULL, "stored otherwise"},
        {"fwd bf16 q3 k5 d32 vcache=f32", NULL, "stored otherwise"},
        {"fwd bf16 q3 k5 d8 scores=raw", NULL, "score matrix"},
        {"fwd bf16 q3 k5 d32 mask=qk maskkeys=2", NULL, "columns of a mask"}};
    static const struct refused others[] = {
        {"fused_cpu UNIT=amx", {"fwd f32 q3 k5 d8", NULL, "do not hold an f32"}},
        {"split_cpu UNIT=amx", {"fwd f32 q3 k5 d8", NULL, "do not hold an f32"}},
        {"split_cpu UNIT=amx", {"fwd bf16 q3 k5 d8 scores=raw", NULL, "score matrix"}},
        {"fused_cpu UNIT=amx", {"fwd f16 q3 k5 d8 strict", NULL, "strict"}},
        {"fused_cpu UNIT=amx", {"fwd f16 q3 k5 d8 invariant", NULL, "bits of others"}},
        {"fused_cpu UNIT=amx", {"fwd f16 q3 k5 d32 vcache=bf16", NULL, "not that of q"}},
        {"fused_cpu UNIT=amx", {"fwd bf16 q3 k5 d8 scores=raw", NULL, "score matrix"}},
        {"fused_cpu UNIT=amx",
         {"fwd bf16 q3 k5 d32 mask=qk maskkeys=2", NULL, "columns of a mask"}},
        {"backward_cpu UNIT=amx", {"bwd f32 q3 k5 d8", NULL, "bf16 alone"}},
        {"backward_cpu UNIT=amx", {"bwd f16 q3 k5 d8", NULL, "bf16 alone"}},
        {"backward_cpu UNIT=amx", {"bwd bf16 q3 k5 d8 strict", NULL, "strict"}},
        {"backward_cpu UNIT=amx", {"fwd bf16 q3 k5 d8", NULL, "backward only"}},
        {"projection_cpu UNIT=amx", {"proj f32 q3 d8", NULL, "bf16 alone"}},
        {"projection_cpu UNIT=amx", {"proj f16 q3 d8", NULL, "bf16 alone"}}};

    for (size_t n = 0; n < sizeof forward / sizeof *forward; n++)
        families_expect_refusals(forward[n], refused, sizeof refused / sizeof *refused - n);
    expect_refusals(others, sizeof others / sizeof *others);
}

Test(unit_choices, refusals_of_GPUs) {
    static const char fused_mma[] = "fused_gpu UNIT=mma", split_mma[] = "split_gpu UNIT=mma",
                      backward_mma[] = "backward_gpu UNIT=mma",
                      projection_mma[] = "projection_gpu UNIT=mma",
                      fused[] = "fused_gpu UNIT=warpgroup",
                      backward[] = "backward_gpu UNIT=warpgroup",
                      projection[] = "projection_gpu UNIT=warpgroup";
    static const struct refused refused[] = {
        {"fused_gpu UNIT=item",
         {"fwd f32 q3 k5 d32 kcache=q8_0 vcache=q8_0", "STAGES=2", "copies to local memory"}},
        {fused_mma, {"fwd f32 q3 k5 d8 page=4 pages=8 klen", NULL, "not in pages"}},
        {fused_mma, {"fwd f32 q3 k5 d8", "Q_RESIDENT=1", "do not stay in registers"}},
        {fused_mma, {"fwd f16 q3 k5 d32 kcache=q8_0 vcache=bf16", NULL, "of one dtype"}},
        {fused_mma, {"fwd f16 q3 k5 d8 scores=raw", NULL, "scores never lie in memory"}},
        {fused_mma, {"fwd bf16 q3 k5 d264", NULL, "dims over 256"}},
        {fused, {"fwd f32 q3 k5 d64 dropout=0.1", NULL, "no place beside the tiles"}},
        {fused, {"fwd f32 q3 k5 d64", "PRODUCER=0", "are for a producer"}},
        {fused, {"fwd f32 q3 k5 d80", NULL, "multiples of 64"}},
        {fused, {"fwd f16 q3 k5 d84", NULL, "multiples of 8"}},
        {fused, {"fwd f16 q3 k5 d64/32", NULL, "so few"}},
        {fused, {"fwd f16 q3 k5 d64 kcache=q8_0", NULL, "have factors"}},
        {fused, {"fwd f16 q3 k5 d64 scores=raw", NULL, "scores never lie in memory"}},
        {fused, {"fwd f16 q3 k5 d64 strict odtype=f32", NULL, "strict weights"}},
        {fused, {"fwd bf16 q3 k5 d320", NULL, "exceed its registers"}},
        {split_mma, {"fwd f32 q3 k5 d8", NULL, "not f32"}},
        {split_mma, {"fwd f16 q3 k5 d8 kcache=f32", NULL, "of one dtype"}},
        {split_mma, {"fwd f32 q3 k5 d32 kcache=q8_0", NULL, "not f32"}},
        {split_mma, {"fwd f16 q3 k5 d8 scores=raw", NULL, "scores never lie in memory"}},
        {split_mma, {"fwd f16 q3 k5 d8 dropout=0.1", NULL, "draws no dropout"}},
        {split_mma, {"fwd f16 q3 k1000 d8", "SPLIT_K=16", "fewer than 64 keys"}},
        {split_mma, {"fwd f16 q3 k5 d8", "SUB_GROUPS=4 BLOCK_N=32", "no whole fragments"}},
        {split_mma,
         {"fwd f16 q3 k5 d8", "SUB_GROUPS=1 KV_PARTS=4 BLOCK_N=32",
          "a part are no whole fragments"}},
        {split_mma, {"fwd f16 q3 k5 d8", "KV_PARTS=2 Q_RESIDENT=1", "K comes in parts"}},
        {backward_mma,
         {"bwd f32 q3 k5 d8", "M_FRAGMENTS=2 SUB_GROUPS=2 DIM_GROUPS=1", "that are one part"}},
        {backward_mma, {"bwd f16 q3 k5 d8 strict", "", "strict"}},
        {backward_mma, {"bwd bf16 q3 k5 d1024", "", "exceed its registers"}},
        {backward, {"bwd f16 q3 k5 d64 strict", "", "strict"}},
        {backward, {"bwd f16 q3 k5 d80", "", "64 or 128"}},
        {backward, {"bwd f16 q3 k5 d192", "", "64 or 128"}},
        {backward, {"bwd f16 q3 k5 d64 bias=f16:qk dbias", "", "sums of a bias"}},
        {projection_mma, {"proj f16 q3 d8", "BLOCK_M=32 SUB_GROUPS_M=4", "no whole fragments"}},
        {projection_mma,
         {"proj f16 q3 d8", "BLOCK_M=256 BLOCK_N=256 SUB_GROUPS_M=1 SUB_GROUPS_N=2", "registers"}},
        {projection_mma, {"proj bf16 q3 d100", "SPLIT_K=2", "a depth of 64"}},
        {projection, {"proj f16 q3 d60", "", "pieces of 8"}},
        {projection, {"proj f16 h1/2 q3 d80/8 w=1000.8.8.1", "", "whole stages of 64"}},
        {projection, {"proj f16 q8 d64 x=bhds", "", "x does not lie in pieces"}},
        {projection, {"proj bf16 q3 d64/12", "", "w does not lie in pieces"}}};

    expect_refusals(refused, sizeof refused / sizeof *refused);
}

/* Another instruction's fragments; and emulated ones, which lie on a thread's stack, that bounds the work-group. */
Test(unit_choices, refusals_of_emulation) {
    static const struct refused refused[] = {
        {"backward_gpu UNIT=mma",
         {"bwd f16 q3 k5 d8", "INSTRUCTION=3 BLOCK_STREAMED=16", "no whole fragments"}},
        {"split_gpu UNIT=mma", {"fwd f16 q3 k5 d8", "SUB_GROUPS=16 BLOCK_N=256", "stack"}}};
    struct fixture f;

    fixture_open(&f);
    unit_need_emulation(&f);
    fixture_close(&f);
    expect_refusals(refused, sizeof refused / sizeof *refused);
}
