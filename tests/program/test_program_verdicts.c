/* SPDX-License-Identifier: Apache-2.0 */
/* A program's verdict is stored at once, its binary at the latest when the context is released.
 * Failures that may pass, such as a lack of memory, are not stored. */
#include "context/context.h"
#include "device/facts.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/function.h"
#include "problem/problem.h"
#include "program/program.h"
#include "selfcheck/selfcheck.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/scratch.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(program_verdicts, .init = fixture_folder, .fini = scratch_close, .timeout = 300);

static const char problem_text[] = "fwd f32 h2 q9 k20 d8";

static clattn_status make(struct fixture *f, clattn_plan **plan)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused_lanes"};
    const clattn_problem problem = fixture_problem(problem_text);

    return clattn_plan_create(f->context, &problem, &options, plan);
}

static cl_int refuse(void *user)
{
    (void)user;
    return CL_BUILD_PROGRAM_FAILURE; /* the log of a program that was never built is empty */
}

Test(program_verdicts, a_build_that_fails_without_an_error_in_the_source_is_tried_again) {
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, scratch);
    faults_on_build(refuse, NULL);
    cr_expect(make(&f, &plan) == CLATTN_BUILD_FAILED && plan == NULL);
    cr_expect(f.log.errors == 1 && f.log.warnings == 1, "the cause, once");
    faults_on_build(NULL, NULL);
    cr_expect(make(&f, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* A result that is wrong once may be the machine: the program is not used now, but tried again. One
 * that is wrong twice is the compiler's, and not even checked again. */
Test(program_verdicts, wrong_once_and_wrong_twice) {
    static const enum fault_kind kinds[] = {FAULT_LIE, FAULT_LIES};
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, "");
    for (size_t n = 0; n < 2; n++) {
        faults_arm(kinds[n], 0, 0);
        cr_expect(make(&f, &plan) == CLATTN_MISCOMPILED && plan == NULL);
        cr_assert(faults_disarm() != NULL || kinds[n] == FAULT_LIES);
        const long commands = faults_commands();
        const clattn_status again = make(&f, &plan);
        cr_expect(again == (n == 0 ? CLATTN_SUCCESS : CLATTN_MISCOMPILED), "%s", f.log.last);
        cr_expect((faults_commands() > commands) == (n == 0));
        clattn_plan_release(plan);
        if (n == 0) { /* a context that knows nothing */
            fixture_close(&f);
            fixture_open_checked(&f, "");
        }
    }
    fixture_close(&f);
}

/* In the files of programs. */
static size_t bytes_kept(void)
{
    const struct scratch_files found = scratch_find("programs", ".clbin");
    size_t bytes = 0;

    for (size_t n = 0; n < found.count; n++)
        bytes += (size_t)scratch_bytes(found.paths[n]);
    return bytes;
}

/* A process that never releases its context has lost a compilation, but no check. */
Test(program_verdicts, the_verdict_is_kept_before_the_binary) {
    struct fixture dies, next;
    clattn_plan *plan;

    fixture_open_checked(&dies, scratch);
    cr_assert(make(&dies, &plan) == CLATTN_SUCCESS, "%s", dies.log.last);
    const size_t before = bytes_kept();
    cr_expect(before > 0);

    fixture_open_checked(&next, scratch); /* as the next process finds the scratch */
    const long commands = faults_commands();
    clattn_plan *other;
    cr_assert(make(&next, &other) == CLATTN_SUCCESS, "%s", next.log.last);
    cr_expect(faults_commands() == commands, "it was checked again");
    cr_expect(next.log.warnings == 0);
    clattn_plan_release(other);
    clReleaseCommandQueue(next.queue);
    clattn_context_release(next.context);

    clattn_plan_release(plan);
    fixture_close(&dies);
    cr_expect(bytes_kept() >= before && bytes_kept() > 4096, "no binary was kept");
}

/* clattn_context_leave(), which a process calls that ends without releasing its context, stores the binaries of plans that
 * are still there. */
Test(program_verdicts, binaries_are_kept_when_asked_for) {
    struct fixture f;
    clattn_plan *plan;

    clattn_context_leave(NULL);
    fixture_open_checked(&f, scratch);
    clattn_context_leave(f.context); /* nothing yet */
    cr_assert(make(&f, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
    clattn_context_leave(f.context);
    const size_t kept = bytes_kept();
    cr_expect(kept > 4096, "no binary was kept");
    cr_expect(
        clattn_plan_describe(plan, &(clattn_plan_info){.struct_size = sizeof(clattn_plan_info)}) ==
        CLATTN_SUCCESS);
    clattn_plan_release(plan);
    fixture_close(&f);
    cr_expect(bytes_kept() == kept);
}

/* A program that the tuner tries, and no plan of the caller's uses, is not worth a binary, which
 * costs as much as compiling. */
Test(program_verdicts, a_binary_is_kept_for_plans_only) {
    struct ca_candidate candidate = {.family = ca_family_find("unfused_lanes")};
    const struct ca_problem p = fixture_checked(problem_text);
    struct ca_build_seconds seconds;
    struct fixture f;
    cl_program program;

    fixture_open_checked(&f, scratch);
    ca_family_suggest(candidate.family, &p, clattn_context_device(f.context), candidate.values);
    cr_assert(ca_program_get(f.context, &candidate, &p, ca_trust_check, &program) ==
              CLATTN_SUCCESS);
    ca_programs_seconds(f.context, &seconds);
    cr_expect(seconds.front_end > 0.0 && seconds.code_generation > 0.0 && seconds.self_check > 0.0);
    const size_t before = bytes_kept();
    ca_programs_store(f.context, 0.0);
    cr_expect(bytes_kept() == before);
    ca_program_keep(f.context, program);
    ca_programs_store(f.context, 0.0);
    cr_expect(bytes_kept() > 4096);
    fixture_close(&f);
}

/* Seconds of building the problem's program in a context of its own; 0 if the cache folder has it. */
static double build_seconds(const struct ca_problem *p)
{
    struct ca_candidate candidate = {.family = ca_family_find("unfused_lanes")};
    struct ca_build_seconds seconds;
    struct fixture f;
    cl_program program;

    fixture_open_checked(&f, scratch);
    ca_family_suggest(candidate.family, p, clattn_context_device(f.context), candidate.values);
    cr_assert(ca_program_get(f.context, &candidate, p, ca_trust_check, &program) == CLATTN_SUCCESS);
    ca_program_keep(f.context, program);
    ca_programs_store(f.context, 0.0);
    ca_programs_seconds(f.context, &seconds);
    fixture_close(&f);
    return seconds.front_end;
}

/* What the library writes around a caller's function is a part of the program: where another version of the library writes
 * other text, a binary of the same function is not used. */
Test(program_verdicts, a_binary_of_other_text_around_a_function_is_not_used) {
    static const char source[] = "float score(float s, pair p, operands o) { return s * 0.5f; }\n";
    const clattn_function *function;
    char text[128], other[1024];

    cr_assert(clattn_function_create("half", source, &function, NULL, 0) == CLATTN_SUCCESS);
    snprintf(text, sizeof text, "%s score=%s", problem_text, clattn_function_name(function));
    const struct ca_problem p = fixture_checked(text);
    cr_expect(build_seconds(&p) > 0.0 && build_seconds(&p) == 0.0);
    char **derived = &((struct clattn_function *)function)->derived, *before = *derived;
    snprintf(other, sizeof other, "%s/* another version */\n", before);
    *derived = other;
    cr_expect(build_seconds(&p) > 0.0);
    *derived = before;
}

/* PoCL builds a source a second time for functions that cl/common/builtins.h lacks, here all of
 * them. Nothing else changes. */
Test(program_verdicts, a_source_with_other_built_in_functions_builds_too) {
    struct ca_family family = *ca_family_find("unfused_lanes");
    struct ca_candidate candidate = {.family = &family};
    const struct ca_problem p = fixture_checked(problem_text);
    struct fixture f;
    cl_program program;

    fixture_open(&f);
    if (!ca_facts_of_pocl(clattn_context_device(f.context))) {
        fixture_close(&f);
        cr_skip_test("only PoCL is given the declarations of cl/common/builtins.h");
    }
    ca_family_suggest(candidate.family, &p, clattn_context_device(f.context), candidate.values);
    family.source = (const char *const[]){
        "__kernel void k(__global float *x) { x[get_global_id(0)] = lgamma(x[0]); }", NULL};
    cr_expect(ca_program_get(f.context, &candidate, &p, ca_trust_check, &program) ==
              CLATTN_SUCCESS);
    cr_expect(f.log.warnings == 0 && f.log.errors == 0, "%s", f.log.last);
    cr_expect(atomic_exchange(&f.context->builtins_refused, 0) == 1);
    cr_expect(clattn_context_builds(f.context) == 1);
    fixture_close(&f);
}

struct announced {
    int count;
    char text[FIXTURE_LOG_BYTES];
    int at_build; /* what was announced when a build began */
};

static void hear(clattn_log_level level, const char *message, void *user)
{
    struct announced *said = user;

    if (level != CLATTN_LOG_INFO)
        return;
    said->count++;
    snprintf(said->text, sizeof said->text, "%s", message);
}

static cl_int note(void *user)
{
    struct announced *said = user;

    said->at_build = said->count;
    return CL_SUCCESS;
}

/* However many programs it has, the end of a context begins to store one for so many seconds alone, and says what it leaves. */
Test(program_verdicts, the_end_of_a_context_has_an_end) {
    struct announced said = {0};
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = hear,
                                            .log_user_data = &said,
                                            .cache_directory = scratch};
    static const char *const texts[] = {problem_text, "fwd f32 h2 q9 k20 d24"};
    clattn_context *context;
    clattn_plan *plan;

    cr_assert(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS);
    for (size_t n = 0; n < 2; n++) {
        const clattn_problem problem = fixture_problem(texts[n]);
        const clattn_plan_options forced = {.struct_size = sizeof forced,
                                            .family = "unfused_lanes"};
        cr_assert(clattn_plan_create(context, &problem, &forced, &plan) == CLATTN_SUCCESS);
        clattn_plan_release(plan);
    }
    const int dear = ca_facts_of_pocl(clattn_context_device(context));
    cr_expect(context->end_seconds == 10.0);
    context->end_seconds = 0.0;
    said.count = 0;
    clattn_context_release(context);
    cr_expect(said.count == dear);
    if (dear)
        cr_expect(strstr(said.text, "1 of the context's programs are not stored"), "%s", said.text);
}

/* A build that takes seconds is announced at its start, with the reason; others are not. */
Test(program_verdicts, a_build_is_announced) {
    struct announced said = {0};
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = hear,
                                            .log_user_data = &said,
                                            .skip_self_checks = 1,
                                            .cache_directory = ""};
    const clattn_problem problem = fixture_problem(problem_text);
    clattn_context *context;
    clattn_plan *plan;

    cr_assert(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS);
    faults_on_build(note, &said);
    for (int n = 0; n < 2; n++) {
        cr_assert(clattn_plan_create(context, &problem, NULL, &plan) == CLATTN_SUCCESS);
        clattn_plan_release(plan);
        cr_expect(said.count == 1 && said.at_build == 1);
    }
    cr_expect(strstr(said.text, "compiled") && strstr(said.text, "no cache of programs"), "%s",
              said.text);
    faults_on_build(NULL, NULL);
    clattn_context_release(context);
}
