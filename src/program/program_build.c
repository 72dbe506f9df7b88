/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program_build.h"
#include "context/first_run.h"
#include "context/in_flight.h"
#include "device/facts.h"
#include "families/candidate.h"
#include "families/source.h"
#include "os/clock.h"
#include "problem/classes/problem_class.h"
#include "problem/function.h"
#include "problem/problem.h"
#include "program/build_log.h"
#include "program/program_cache.h"
#include "program/program_file.h"
#include "program/program_options.h"
#include "program/ptx.h"
#include "program/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failing --------------------------------------------------------------------------------- */

/* Remembers why a build failed. True if the context's last one failed for the same reason. */
static int failed_before(clattn_context *ctx, const char *reason)
{
    char *last = ctx->last_failure;

    ca_mutex_lock(&ctx->lock);
    const int same = strncmp(last, reason, sizeof ctx->last_failure - 1) == 0;
    ca_reason(last, sizeof ctx->last_failure, "%s", reason);
    ca_mutex_unlock(&ctx->lock);
    return same;
}

/* Logs the cause first and once: one cause, such as a full disk, often fails every family. Details
 * follow for users who ask for them. */
static void judge_build(clattn_context *ctx, cl_program program, struct ca_program *made)
{
    const char *name = made->family->full_name;
    char why[CA_REASON_BYTES];

    char *text = ca_build_log(program, ctx->device.device);
    if (!text) {
        ca_warn(&ctx->log, "%s does not build on '%s', and its log cannot be read", name,
                ctx->device.name);
        return;
    }
    if (ca_verdict_of_build_log(text, &made->verdict))
        ca_reason(why, sizeof why, "%s", made->verdict.reason);
    else
        ca_build_log_cause(text, why, sizeof why);
    if (failed_before(ctx, why))
        ca_warn(&ctx->log, "%s does not build either, for the same reason", name);
    else
        ca_warn(&ctx->log, "%s does not build on '%s': %s", name, ctx->device.name, why);
    ca_detail(&ctx->log, "%s was built with '%s'; its build log follows", name, made->options);
    ca_log_text(&ctx->log, CLATTN_LOG_DETAIL, text);
    free(text);
}

/* ---- building -------------------------------------------------------------------------------- */

/* Returns whether warnings of clang are turned off. It warns of loops over a caller's function
 * that do not become vectors. It also warns of functions that take vectors wider than the
 * processor's registers: many have vectors of 16 words, and tuned kernels may have wider ones. PoCL
 * prints the number of warnings to standard error (7.1 does not heed a pragma). Tests see that all
 * other builds have no warnings. */
static int is_silent(const clattn_device_info *dev, const char *options)
{
    static const char width[] = "-DSIMD_WIDTH=";
    const char *at = strstr(options, width);
    const int for_cpu = (dev->type & CL_DEVICE_TYPE_CPU) || strstr(options, "-DEMULATE=1");

    return (for_cpu && dev->vector_width_float < 16) || strstr(options, "_FUNCTION_HASH=") ||
           (at && strtoul(at + strlen(width), NULL, 10) > dev->vector_width_float);
}

/* With the declarations of cl/common/builtins.h in place of the compiler's own header, of which PoCL reads
 * 18 000 lines for each program. The functions called are the same, so that the code and what is kept
 * of it do not depend on it. True if the compiler did not take them and says why, which may be the
 * header of another version: then all of it is read. */
static int build_with_own_builtins(clattn_context *ctx, const struct ca_problem *p, cl_program cl,
                                   const struct ca_program *made, cl_int *err)
{
    char options[CA_OPTIONS_TEXT + 64];

    snprintf(options, sizeof options, "%s-D_OPENCL_H_ -DCLATTN_DECLARES_BUILTINS %s",
             is_silent(&ctx->device, made->options) ? "-w " : "", made->options);
    *err = clBuildProgram(cl, 1, &ctx->device.device, options, NULL, NULL);
    if (*err != CL_BUILD_PROGRAM_FAILURE)
        return 0;
    char *text = ca_build_log(cl, ctx->device.device);
    const int refused = text && text[0];
    if (refused) {
        if (!p || !ca_has_functions(&p->normal)) /* which may call any */
            atomic_fetch_add(&ctx->builtins_refused, 1);
        ca_detail(&ctx->log,
                  "%s does not build with cl/common/builtins.h, but may without; its log follows",
                  made->family->full_name);
        ca_log_text(&ctx->log, CLATTN_LOG_DETAIL, text);
    }
    free(text);
    return refused;
}

/* Replaces *cl, which is built, by an unbuilt program. It is made from the PTX of the driver,
 * changed to another target. If that is impossible, the result is a verdict. */
static clattn_status retarget(clattn_context *ctx, cl_program *cl, const char *target,
                              struct ca_program *made)
{
    char why[CA_REASON_BYTES] = "the driver hands out no binary", *ptx = NULL;
    clattn_status status = CLATTN_BUILD_FAILED;
    size_t bytes, ptx_bytes;
    cl_program other = NULL;

    unsigned char *binary = ca_program_binary(ctx, *cl, &bytes);
    if (binary)
        status = ca_ptx_retarget((const char *)binary, bytes, target, &ptx, &ptx_bytes, why);
    if (ptx) {
        other = ca_program_of_binary(ctx, (const unsigned char *)ptx, ptx_bytes);
        ca_reason(why, sizeof why, "the driver does not take PTX for %s", target);
    } else if (binary && status == CLATTN_BUILD_FAILED) {
        made->verdict.status = status;
        ca_reason(made->verdict.reason, sizeof made->verdict.reason, "%s", why);
    }
    free(ptx);
    free(binary);
    clReleaseProgram(*cl);
    *cl = other;
    if (other)
        return CLATTN_SUCCESS;
    failed_before(ctx, why);
    ca_warn(&ctx->log, "%s is not used on '%s': %s", made->family->full_name, ctx->device.name,
            why);
    return status == CLATTN_SUCCESS ? CLATTN_BUILD_FAILED : status;
}

/* The program of the parameters, the functions of the problem, and the source after them; on PoCL the declarations of built-in
 * functions come first, for build_with_own_builtins(). NULL if that fails, with the error in *err. */
static cl_program create(clattn_context *ctx, const struct ca_program *made, cl_int *err)
{
    const int declares = ca_facts_of_pocl(&ctx->device);
    char *builtins = declares ? ca_source_text(ca_source_builtins) : NULL;
    char *source = ca_source_text(made->family->source);
    const char *all[4];
    cl_uint count = 0;
    cl_program cl = NULL;

    if (declares)
        all[count++] = builtins;
    all[count++] = made->parameters;
    all[count++] = made->functions;
    all[count++] = source;
    *err = CL_OUT_OF_HOST_MEMORY;
    if ((builtins || !declares) && source)
        cl = clCreateProgramWithSource(ctx->cl, count, all, NULL, err);
    free(builtins);
    free(source);
    return *err == CL_SUCCESS ? cl : NULL;
}

/* ptx_target: see struct ca_family. */
static clattn_status build(clattn_context *ctx, const struct ca_problem *p, struct ca_program *made,
                           const char *ptx_target)
{
    const char *name = made->family->full_name;
    cl_int err;

    cl_program cl = create(ctx, made, &err);
    if (!cl)
        return ca_fail_cl(&ctx->log, err, "clCreateProgramWithSource for %s", name);
    const double begin = ca_stopwatch_now();
    if (!ca_facts_of_pocl(&ctx->device) || build_with_own_builtins(ctx, p, cl, made, &err))
        err = clBuildProgram(cl, 1, &ctx->device.device, made->options, NULL, NULL);
    if (err == CL_SUCCESS && ptx_target) {
        const clattn_status retargeted = retarget(ctx, &cl, ptx_target, made);
        if (retargeted != CLATTN_SUCCESS)
            return retargeted;
        err = clBuildProgram(cl, 1, &ctx->device.device, made->options, NULL, NULL);
    }
    made->seconds.front_end += ca_stopwatch_now() - begin;
    if (err == CL_SUCCESS) {
        atomic_fetch_add(&ctx->builds, 1);
        made->cl = cl;
        return CLATTN_SUCCESS;
    }
    clattn_status status = CLATTN_BUILD_FAILED;
    if (err == CL_BUILD_PROGRAM_FAILURE)
        judge_build(ctx, cl, made);
    else
        status = ca_fail_cl(&ctx->log, err, "clBuildProgram for %s with '%s'", name, made->options);
    clReleaseProgram(cl);
    return status;
}

/* Logs the beginning of work that takes seconds. */
static void announce(const clattn_context *ctx, const struct ca_candidate *candidate,
                     const struct ca_problem *p, int trusted)
{
    const char *why = !ctx->cache_directory ? "there is no cache of programs"
                      : trusted             ? "the cache of programs knows it, without its binary"
                                            : "the cache of programs does not have it";
    char problem[512] = "any problem";

    if (p)
        clattn_problem_print(&p->normal, problem, sizeof problem, NULL);
    ca_inform(&ctx->log, "%s is being compiled for '%s' on '%s', which may take seconds: %s",
              candidate->family->full_name, problem, ctx->device.name, why);
}

/* A result that is wrong twice is a verdict. Once may be the machine's fault, but the program is
 * not trusted either. */
static clattn_status check(clattn_context *ctx, const struct ca_candidate *candidate,
                           const struct ca_problem *p, ca_self_check *self_check,
                           struct ca_program *made)
{
    const struct ca_family *family = candidate->family;
    clattn_status status = CLATTN_MISCOMPILED;
    char why[CA_REASON_BYTES];
    int wrong = 0;

    for (; wrong < 2 && status == CLATTN_MISCOMPILED; wrong += status == CLATTN_MISCOMPILED) {
        const double begin = ca_stopwatch_now(), before = made->seconds.code_generation;
        status = self_check(ctx, candidate, p, made->cl, &made->seconds.code_generation, why);
        made->seconds.self_check +=
            ca_stopwatch_now() - begin - (made->seconds.code_generation - before);
    }
    if (wrong == 0)
        return status;
    ca_warn(&ctx->log, "%s is %s and not used: %s, on '%s' (driver %s)", family->full_name,
            wrong == 2 ? "miscompiled" : "wrong once", why, ctx->device.name,
            ctx->device.driver_version);
    if (wrong == 2)
        made->verdict = ca_verdict_miscompiled();
    return CLATTN_MISCOMPILED;
}

/* A binary that costs as much as all before waits for ca_programs_store(). Its verdict does not: a
 * process that ends before has lost a compilation, but no check. */
static void store(clattn_context *ctx, struct ca_program *made, int trusted)
{
    const double begin = ca_stopwatch_now();

    const int dear = made->cl && ca_program_binary_is_dear(ctx);
    made->unstored = dear && ctx->cache_directory && ca_in_flight_join();
    if (!dear || !trusted)
        ca_program_cache_store(ctx, made, dear ? NULL : made->cl);
    made->seconds.storing += ca_stopwatch_now() - begin;
}

/* Builds and checks the program, and stores the verdict. */
static void make_anew(clattn_context *ctx, const struct ca_candidate *candidate,
                      const struct ca_problem *p, ca_self_check *self_check,
                      struct ca_program *made, int trusted)
{
    const struct ca_family *family = candidate->family;

    announce(ctx, candidate, p, trusted);
    made->status =
        build(ctx, p, made, family->ptx_target ? family->ptx_target(candidate->values) : NULL);
    if (made->status == CLATTN_SUCCESS && !trusted && !ctx->skip_self_checks)
        made->status = check(ctx, candidate, p, self_check, made);
    if (made->status != CLATTN_SUCCESS && made->cl) {
        clReleaseProgram(made->cl);
        made->cl = NULL;
    }
    if (made->status == made->verdict.status && !ctx->skip_self_checks)
        store(ctx, made, trusted);
}

/* Logs what a verdict of an earlier process costs, and how to remove it. */
static void say_condemned(clattn_context *ctx, const struct ca_problem *p,
                          const struct ca_program *made)
{
    char what[CA_CLASS_TEXT + 2] = "--all", class[CA_CLASS_TEXT];

    if (p) {
        ca_problem_class(&p->normal, class);
        snprintf(what, sizeof what, "\"%s\"", class);
    }
    if (made->verdict.status == CLATTN_BUILD_FAILED)
        failed_before(ctx, made->verdict.reason);
    ca_warn(&ctx->log, "%s is not used on '%s': %s (clattn-tune forget %s has it tried %s)",
            made->family->full_name, ctx->device.name, made->verdict.reason, what,
            made->verdict.until ? "at once" : "again");
}

/* Does what make_anew() does, unless processes have died at it. */
static void make_first(clattn_context *ctx, const struct ca_candidate *candidate,
                       const struct ca_problem *p, ca_self_check *self_check,
                       struct ca_program *made)
{
    char what[CA_PROGRAM_HEADER_BYTES];
    char *path = ca_program_cache_begun(ctx, made, what);
    struct ca_first_run run;
    time_t until;
    const int deaths = ca_first_run_begin(&ctx->first_runs, &run, path, what, &until);

    if (deaths < CA_FIRST_RUN_DEATHS) {
        make_anew(ctx, candidate, p, self_check, made, 0);
    } else {
        made->verdict = ca_verdict_crashed(until);
        made->status = made->verdict.status;
        say_condemned(ctx, p, made);
    }
    ca_first_run_end(&run);
}

void ca_program_make(clattn_context *ctx, const struct ca_candidate *candidate,
                     const struct ca_problem *p, ca_self_check *self_check, struct ca_program *made)
{
    const double begin = ca_stopwatch_now();
    const int known = ca_program_cache_load(ctx, made, &made->cl, &made->verdict);

    made->seconds.loading = ca_stopwatch_now() - begin;
    if (!known)
        made->verdict = (struct ca_verdict){.status = CLATTN_SUCCESS};
    made->status = made->verdict.status;
    if (made->status != CLATTN_SUCCESS)
        say_condemned(ctx, p, made);
    else if (made->cl)
        return;
    else if (!ctx->device.compiler_available)
        made->status = ca_fail(&ctx->log, CLATTN_NO_COMPILER,
                               "device '%s' has no OpenCL C compiler, and the cache of programs "
                               "has no %s with '%s'",
                               ctx->device.name, made->family->full_name, made->options);
    else if (known)
        make_anew(ctx, candidate, p, self_check, made, 1);
    else
        make_first(ctx, candidate, p, self_check, made);
}
