/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions under every vendor's layout of fragments, emulated where the device has none, by both
 * families of attention that multiply by them: random problems, and the conformance cases in f16 and bf16.
 *
 * CLATTN_TEST_LAYOUTS=all takes every conformance case in both dtypes for each layout (minutes),
 * CLATTN_TEST_SCALE=20 that many random programs for each, CLATTN_TEST_SEED=2 others.
 *
 * Not optimised: optimising, PoCL 3.1 takes 20 s for a program, and miscompiles mma.sync's emulation
 * with 4 or 8 sub-groups unless POCL_WORK_GROUP_METHOD is "loops". */
#include "families/registry.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/conformance_case.h"
#include "tests/trials/random_problem.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(layouts, .init = unoptimised, .timeout = 3600);

enum { LAYOUTS = 6, SHAPES = 5 };

/* No pointers: it crosses processes. */
struct layout {
    char family[32];
    size_t instruction; /* the tunable */
};

/* The families of attention that have them, forward first. */
static const char *const families[] = {"fused_gpu UNIT=mma", "split_gpu UNIT=mma",
                                       "backward_gpu UNIT=mma"};

enum { FORWARD = 2, FAMILIES = sizeof families / sizeof *families };

static struct criterion_test_params each_layout(const size_t num_families)
{
    static struct layout layouts[FAMILIES * LAYOUTS];

    for (size_t n = 0; n < num_families * LAYOUTS; n++) {
        snprintf(layouts[n].family, sizeof layouts[n].family, "%s", families[n / LAYOUTS]);
        layouts[n].instruction = n % LAYOUTS + 1;
    }
    return cr_make_param_array(struct layout, layouts, num_families * LAYOUTS);
}

/* False where the device has another instruction. */
static int is_supported(const struct fixture *f, const clattn_problem *p, const char *family,
                        const char *tunables)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = family, .tunables = tunables};

    return clattn_plan_supports(f->context, p, &options) == CLATTN_SUCCESS;
}

/* ---- random problems ------------------------------------------------------------------------- */

/* A kind of problem whose program has the layout. */
static struct problem_kind draw_kind(struct rng *r, const struct fixture *f,
                                     const struct layout *layout)
{
    const struct ca_family *family = ca_family_find(layout->family);
    struct problem_kind kind;
    size_t instruction = 0;

    while (strcmp(family->tunables[instruction].name, "INSTRUCTION") != 0)
        instruction++;
    do
        kind = random_kind(r, family, clattn_context_device(f->context));
    while (kind.values[instruction] != layout->instruction);
    return kind;
}

/* A run takes one in `runs` layouts of the first families, and the others in the next runs. */
static struct criterion_test_params some_layouts(const size_t num_families, const unsigned runs)
{
    static struct layout taken[FAMILIES * LAYOUTS];
    const struct criterion_test_params all = each_layout(num_families);
    size_t numbers[FAMILIES * LAYOUTS];
    const size_t count =
        numbers_taken(all.length, 0, run_all("CLATTN_TEST_LAYOUTS") ? 1 : runs, numbers);

    for (size_t n = 0; n < count; n++)
        taken[n] = ((const struct layout *)all.params)[numbers[n]];
    return cr_make_param_array(struct layout, taken, count);
}

ParameterizedTestParameters(layouts, sweep) {
    return some_layouts(FAMILIES, 9);
}

ParameterizedTest(struct layout *layout, layouts, sweep) {
    const uint64_t kinds = run_number("CLATTN_TEST_SCALE", 1);
    struct rng r = rng_seed(run_seed() * 7919 + layout->instruction);
    clattn_problem any = fixture_problem("fwd f16 q3 k5 d8");
    char tunables[32];
    struct fixture f;

    any.operation = ca_family_find(layout->family)->operation;
    snprintf(tunables, sizeof tunables, "INSTRUCTION=%zu", layout->instruction);
    fixture_open(&f);
    if (!is_supported(&f, &any, layout->family, tunables))
        cr_skip_test("the device has another matrix instruction");
    for (uint64_t k = 0; k < kinds; k++) {
        const struct problem_kind kind = draw_kind(&r, &f, layout);
        size_t passed = 0;
        for (int n = 0; n < 8 * SHAPES && passed < SHAPES; n++) {
            struct trial t = {
                .problem = random_shape(&r, &kind), .family = layout->family, .seed = rng_next(&r)};
            memcpy(t.tunables, kind.tunables, sizeof t.tunables);
            if (!is_supported(&f, &t.problem, t.family, t.tunables))
                continue;
            trial_pass(&f, &t);
            passed++;
        }
        cr_assert(passed > 0, "no problem was taken with %s", kind.tunables);
    }
    fixture_close(&f);
}

/* ---- conformance cases ----------------------------------------------------------------------- */

ParameterizedTestParameters(layouts, conformance) {
    return some_layouts(FORWARD, 3);
}

/* A program takes a second to compile: a case for each layout, of either dtype, if not all. */
ParameterizedTest(struct layout *layout, layouts, conformance) {
    const clattn_problem any = fixture_problem("fwd f16 q3 k5 d8");
    struct trial t = {.family = layout->family, .seed = layout->instruction};
    const int all = run_all("CLATTN_TEST_LAYOUTS");
    struct fixture f;
    int count;
    struct dirent **files = conformance_files(&count);

    snprintf(t.tunables, sizeof t.tunables, "INSTRUCTION=%zu", layout->instruction);
    fixture_open(&f);
    if (!is_supported(&f, &any, t.family, t.tunables))
        cr_skip_test("the device has another matrix instruction");
    for (int n = all ? 0 : (int)layout->instruction * 7; n < count; n += all ? 1 : count) {
        const clattn_dtype dtypes[] = {CLATTN_F16, CLATTN_BF16};
        for (size_t d = 0; d < 2; d++)
            if (all || d == layout->instruction % 2)
                conformance_run(&f, files[n]->d_name, &dtypes[d], &t);
    }
    fixture_close(&f);
    for (int n = 0; n < count; n++)
        free(files[n]);
    free(files);
}
