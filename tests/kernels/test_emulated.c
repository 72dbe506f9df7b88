/* SPDX-License-Identifier: Apache-2.0 */
/* Emulated limits: the device of this machine claims what a profile allows. What is chosen then
 * stays within the limits, which is seen from the kernels that are enqueued, and computes the right
 * values.
 *
 * CLATTN_TEST_PROFILES=all CLATTN_TEST_SCALE=4 takes every profile and more problems for each;
 * test_conformance.c runs its cases likewise. */
#include "device/capacity.h"
#include "device/facts.h"
#include "families/registry.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/programs/scratch.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/random_projection.h"
#include "tests/trials/trial.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(emulated, .init = unoptimised, .timeout = 900);

/* ---- what is claimed ------------------------------------------------------------------------- */

/* Every limit is the lesser of the device's and the profile's; narrowing again changes nothing. */
Test(emulated, claims) {
    static struct profile list[MOST_PROFILES];
    const size_t count = profiles_read(list);

    for (size_t n = 0; n < count; n++) {
        const clattn_device_info *profile = &list[n].info;
        clattn_device_info device = {.struct_size = sizeof device}, again;
        const struct ca_fact *fact;
        struct fixture f;
        fixture_open_narrowed(&f, profile);
        const clattn_device_info *claimed = clattn_context_device(f.context);
        cr_assert(clattn_device_query(f.device, &device) == CLATTN_SUCCESS);
        for (size_t i = 0; (fact = ca_fact_at(i)) != NULL; i++) {
            const cl_ulong real = ca_fact_get(fact, &device), said = ca_fact_get(fact, profile);
            const cl_ulong want = fact->narrows && real < said ? real : said;
            cr_expect(ca_fact_get(fact, claimed) == want, "%s: %s", list[n].name, fact->name);
        }
        cr_expect_str_eq(claimed->name, profile->name);
        cr_expect_str_eq(claimed->driver_version, device.driver_version);
        cr_expect(claimed->device == f.device && claimed->type == profile->type);
        cr_expect(claimed->fp16 == (device.fp16 && profile->fp16));
        cr_expect(claimed->fp64 == (device.fp64 && profile->fp64));
        const int same = strcmp(device.architecture, profile->architecture) == 0;
        cr_expect_str_eq(claimed->architecture, same ? device.architecture : "",
                         "no instructions that it has not");
        for (char *word = strtok(device.extensions, " "); word; word = strtok(NULL, " "))
            cr_expect(ca_facts_have(claimed, word) == ca_facts_have(profile, word), "%s", word);
        again = *claimed;
        ca_facts_narrow(&again, profile);
        cr_expect(memcmp(&again, claimed, sizeof again) == 0);
        fixture_close(&f);
    }
}

/* A device that is narrowed below what is needed is refused as if it were so. */
Test(emulated, refusals) {
    static const struct {
        const char *words;
        clattn_status status;
        cl_bool compiler;
        size_t parameters;
    } cases[] = {{"no OpenCL C compiler", CLATTN_NO_COMPILER, CL_FALSE, 1024},
                 {"kernel arguments", CLATTN_UNSUPPORTED, CL_TRUE, 256}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct profile profile = profile_named("minimum");
        struct log log = {0};
        clattn_context *context;
        profile.info.compiler_available = cases[n].compiler;
        profile.info.max_parameter_bytes = cases[n].parameters;
        const clattn_context_options options = {.struct_size = sizeof options,
                                                .log = log_message,
                                                .log_user_data = &log,
                                                .cache_directory = "",
                                                .profile = &profile.info};
        cr_expect(clattn_context_create_default(NULL, &options, &context) == cases[n].status);
        cr_expect(!context && strstr(log.last, cases[n].words) != NULL, "%s", log.last);
        cr_expect(faults_objects_alive(NULL, 0) == 0);
    }
}

/* Without a compiler what the cache holds for the device runs, and nothing else does. */
Test(emulated, built_programs_need_no_compiler) {
    struct profile profile = profile_named("minimum");
    struct trial t = {.problem = fixture_problem("fwd f32 h2 q20 k30 d16 causal=br"), .seed = 3};
    const clattn_problem other = fixture_problem("fwd f32 h2 q20 k30 d24 mask=qk");
    const clattn_plan_options forced = {.struct_size = sizeof forced,
                                        .family = "fused_gpu UNIT=item"};
    const clattn_tuning_options tuning = {.struct_size = sizeof tuning, .evaluations = 1};
    struct fixture f;
    clattn_plan *plan;

    scratch_open();
    for (int compiler = 1; compiler >= 0; compiler--) {
        profile.info.compiler_available = compiler ? CL_TRUE : CL_FALSE;
        fixture_open_cached(&f, &profile.info, scratch);
        fixture_need_cpu(&f);
        fixture_need_groups(&f);
        trial_pass(&f, &t);
        cr_expect((clattn_context_builds(f.context) > 0) == compiler);
        if (!compiler) {
            cr_expect(clattn_plan_create(f.context, &other, NULL, &plan) == CLATTN_NO_COMPILER);
            cr_expect(!plan && strstr(f.log.last, "there is no compiler"), "%s", f.log.last);
            cr_expect(clattn_plan_create(f.context, &other, &forced, &plan) == CLATTN_NO_COMPILER);
            cr_expect(!plan && strstr(f.log.last, "fused_gpu UNIT=item was forced"), "%s",
                      f.log.last);
            cr_expect(clattn_tune(f.context, &other, 1, &tuning, NULL) == CLATTN_NO_COMPILER);
            cr_expect(strstr(f.log.last, "no OpenCL C compiler"), "%s", f.log.last);
        }
        fixture_close(&f);
    }
    scratch_close();
}

/* ---- what is computed ------------------------------------------------------------------------ */

/* Nothing that was enqueued since the last look exceeds what the profile allows. */
static void within_limits(const struct profile *profile, const char *what)
{
    const struct faults_largest largest = faults_largest();

    cr_assert(largest.work_group <= profile->info.max_work_group_size, "%s, %s: work-group of %zu",
              profile->name, what, largest.work_group);
    cr_assert(largest.local_bytes <= profile->info.local_memory_bytes,
              "%s, %s: %llu bytes of local memory", profile->name, what,
              (unsigned long long)largest.local_bytes);
}

/* A profile may claim a GPU's native_exp2(), which this machine's device need not have. */
static void use_own_exponential(const struct fixture *f, char *tunables)
{
    clattn_device_info device = {.struct_size = sizeof device};
    char *native = strstr(tunables, " EXP=1");

    cr_assert(clattn_device_query(f->device, &device) == CLATTN_SUCCESS);
    if (native && !ca_native_is_precise(&device))
        native[strlen(" EXP=")] = '2';
}

/* Passes a trial of the problem, if the family takes it; whether it does. */
static bool pass(struct fixture *f, const struct profile *profile, struct rng *r,
                 const struct ca_family *family, const clattn_problem *problem,
                 const char *tunables)
{
    struct trial t = {.problem = *problem, .family = family->full_name, .seed = rng_next(r)};

    snprintf(t.tunables, sizeof t.tunables, "%s", tunables);
    if (!trial_is_supported(f, &t))
        return false;
    trial_pass(f, &t);
    within_limits(profile, family->full_name);
    return true;
}

/* One kind of problem, and shapes of it that the family takes. */
static void sweep(struct fixture *f, const struct profile *profile, struct rng *r,
                  const struct ca_family *family)
{
    struct problem_kind kind = random_kind(r, family, clattn_context_device(f->context));
    size_t passed = 0;

    use_own_exponential(f, kind.tunables);
    for (int n = 0; n < 30 && passed < 5; n++) {
        const clattn_problem p = random_shape(r, &kind);
        passed += pass(f, profile, r, family, &p, kind.tunables);
    }
    cr_assert(passed > 0, "%s: %s took no problem", profile->name, family->full_name);
}

static void sweep_projections(struct fixture *f, const struct profile *profile, struct rng *r,
                              const struct ca_family *family)
{
    const struct projection_kind kind =
        random_projection_kind(r, family, clattn_context_device(f->context));
    size_t passed = 0;

    for (int n = 0; n < 60 && passed < 5; n++) {
        const clattn_problem p = random_projection_shape(r, &kind);
        passed += pass(f, profile, r, family, &p, kind.tunables);
    }
    cr_assert(passed > 0, "%s: %s took no problem", profile->name, family->full_name);
}

/* No pointers: it crosses processes. */
struct sample {
    char profile[32], family[32];
};

/* A program takes seconds to compile: a run takes one family, on the profile that differs the most from the others. */
ParameterizedTestParameters(emulated, sweep) {
    static const char *const of_minimum[] = {"fused_gpu UNIT=item", "backward_gpu UNIT=item",
                                             "projection_gpu UNIT=item"};
    static struct sample samples[MOST_FAMILIES * MOST_PROFILES];
    static struct profile list[MOST_PROFILES];
    size_t numbers[3], count = 0;

    if (!run_all("CLATTN_TEST_PROFILES")) {
        count = numbers_taken(3, 0, 3, numbers);
        for (size_t n = 0; n < count; n++) {
            strcpy(samples[n].profile, "minimum");
            strcpy(samples[n].family, of_minimum[numbers[n]]);
        }
    } else {
        const size_t profiles = profiles_read(list);
        for (size_t n = 0; n < profiles; n++)
            for (size_t f = 0; ca_family_at(f); f++)
                if (ca_family_at(f)->operation <= CLATTN_PROJECTION &&
                    family_takes_any_dims(ca_family_at(f)->full_name) &&
                    !strstr(ca_family_at(f)->name, "lanes") &&
                    !strstr(ca_family_at(f)->full_name, "UNIT=vector")) {
                    struct sample *sample = &samples[count++];
                    memcpy(sample->profile, list[n].name, sizeof sample->profile);
                    snprintf(sample->family, sizeof sample->family, "%s",
                             ca_family_at(f)->full_name);
                }
    }
    return cr_make_param_array(struct sample, samples, count);
}

ParameterizedTest(struct sample *sample, emulated, sweep) {
    const struct profile profile = profile_named(sample->profile);
    const struct ca_family *family = ca_family_find(sample->family);
    struct rng r = rng_seed(strlen(sample->profile) * 101 + strlen(sample->family));
    struct fixture f;

    cr_assert(family != NULL);
    fixture_open_narrowed(&f, &profile.info);
    fixture_need_cpu(&f);
    fixture_need_groups(&f);
    for (uint64_t n = 0; n < run_number("CLATTN_TEST_SCALE", 1); n++)
        if (family->operation == CLATTN_PROJECTION)
            sweep_projections(&f, &profile, &r, family);
        else
            sweep(&f, &profile, &r, family);
    fixture_close(&f);
}

/* The choices of the library for CPUs with vectors of 4, 8 and 16 floats, whatever this CPU has.
 * Each has another vendor, since a vendor's name does not change programs (test_tune_space.c). A run takes one. */
ParameterizedTestParameters(emulated, CPUs) {
    static const size_t cpus[] = {1, NUM_CPU_VENDORS + 2, 2 * NUM_CPU_VENDORS + 3};
    static size_t numbers[3];
    const size_t taken = numbers_taken(3, 0, 3, numbers);

    for (size_t n = 0; n < taken; n++)
        numbers[n] = cpus[numbers[n]];
    return cr_make_param_array(size_t, numbers, taken);
}

ParameterizedTest(size_t *cpu, emulated, CPUs) {
    static const char *const problems[] = {
        "fwd f32 h2 q40 k70 d20 causal=br lse", "fwd f16 h4/2 q1 k300 d40",
        "bwd f32 h2/1 q20 k30 d20 causal=br", "proj f32 h2 q30 d40/30 bias=f32"};
    const clattn_device_info claimed = cpu_described(*cpu);
    struct fixture f;

    fixture_open_narrowed(&f, &claimed);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]), .seed = n};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* A self-check, a tuning and a layer keep to the limits as well. */
Test(emulated, all_that_runs_by_itself) {
    const struct profile profile = profile_named("minimum");
    const clattn_problem problem = fixture_problem("fwd f32 h2 q64 k64 d16");
    const clattn_context_options options = {
        .struct_size = sizeof options, .cache_directory = "", .profile = &profile.info};
    const clattn_tuning_options tuning = {.struct_size = sizeof tuning, .evaluations = 1};
    struct fixture f = {.queue = NULL};
    clattn_plan *plan;

    cr_assert(clattn_context_create_default(NULL, &options, &f.context) == CLATTN_SUCCESS);
    faults_largest();
    cr_assert(clattn_plan_create(f.context, &problem, NULL, &plan) == CLATTN_SUCCESS);
    clattn_plan_release(plan);
    within_limits(&profile, "self-check");
    cr_assert(clattn_tune(f.context, &problem, 1, &tuning, NULL) == CLATTN_SUCCESS);
    within_limits(&profile, "tuning");
    clattn_context_release(f.context);
}
