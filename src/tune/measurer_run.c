/* SPDX-License-Identifier: Apache-2.0 */
#include "device/facts.h"
#include "execute/execute.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "program/program.h"
#include "program/program_cache.h"
#include "program/verdict.h"
#include "selfcheck/selfcheck.h"
#include "tune/measurer.h"
#include "tune/measurer_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- failures ------------------------------------------------------------------------------- */

/* Returns whether the context still works: on some drivers errors such as a read beyond memory make
 * all later calls fail. */
static int is_alive(const struct ca_measuring *m)
{
    unsigned char byte = 0;
    cl_int err;

    cl_mem buffer = clCreateBuffer(m->ctx->cl, CL_MEM_READ_WRITE, sizeof byte, NULL, &err);
    if (err != CL_SUCCESS)
        return 0;
    err = clEnqueueWriteBuffer(m->queue, buffer, CL_TRUE, 0, sizeof byte, &byte, 0, NULL, NULL);
    clReleaseMemObject(buffer);
    return err == CL_SUCCESS && clFinish(m->queue) == CL_SUCCESS;
}

static void fail(struct ca_measuring *m, enum ca_outcome outcome, struct ca_reading *reading)
{
    reading->outcome = outcome;
    ca_reason(reading->reason, sizeof reading->reason, "%s", m->capture.sentence);
    if (outcome == CA_COMPILE_FAILED || outcome == CA_WRONG)
        return;
    m->lost = !is_alive(m);
    if (m->lost)
        ca_reason(reading->reason, sizeof reading->reason, "%.200s; the context is lost",
                  m->capture.sentence);
}

/* The outcome of a program that could not be had: by its verdict if that is lasting. */
static void fail_build(struct ca_measuring *m, const struct ca_candidate *candidate,
                       struct ca_reading *reading)
{
    struct ca_verdict verdict = {.status = CLATTN_SUCCESS};

    ca_program_condemned(m->ctx, candidate, &m->works[0].problem, &verdict);
    fail(m,
         verdict.status == CLATTN_BUILD_FAILED  ? CA_COMPILE_FAILED
         : verdict.status == CLATTN_MISCOMPILED ? CA_WRONG
                                                : CA_RUNTIME_FAILED,
         reading);
    if (verdict.status == CLATTN_BUILD_FAILED)
        ca_reason(reading->reason, sizeof reading->reason, "%s", verdict.reason);
    else if (verdict.status == CLATTN_SUCCESS && m->capture.build_error[0])
        ca_reason(reading->reason, sizeof reading->reason, "%s", m->capture.build_error);
}

/* Returns true, with the outcome, if trying is useless. */
static int is_refused(const struct ca_measuring *m, size_t problem,
                      const struct ca_candidate *candidate, struct ca_reading *reading)
{
    char text[CA_REASON_BYTES];
    const char *why =
        m->lost ? "an earlier candidate's failure has left the context lost"
                : ca_family_refusal(candidate->family, &m->works[problem].problem, &m->ctx->device,
                                    candidate->values, text, sizeof text);

    if (!why)
        return 0;
    reading->outcome = CA_CONSTRAINT_FAILED;
    ca_reason(reading->reason, sizeof reading->reason, "%s", why);
    return 1;
}

/* ---- building ------------------------------------------------------------------------------- */

/* 0 on PoCL, whose binaries hold a hash of the options, so that no two are equal, and are made only
 * when they are asked for, which takes half as long as compiling. */
static uint64_t hash_binary(const clattn_context *ctx, cl_program program)
{
    size_t bytes = 0;

    if (ca_facts_of_pocl(&ctx->device))
        return 0;
    unsigned char *binary = ca_program_binary(ctx, program, &bytes);
    const uint64_t hash = binary ? XXH3_64bits(binary, bytes) : 0;

    free(binary);
    return hash;
}

static void build(void *user, const struct ca_candidate *candidate, struct ca_reading *reading)
{
    struct ca_measuring *m = user;
    cl_program program;

    memset(reading, 0, sizeof *reading);
    if (is_refused(m, 0, candidate, reading))
        return;
    ca_capture_forget(&m->capture);
    const double begin = ca_stopwatch_now();
    const clattn_status status =
        ca_program_get(m->ctx, candidate, &m->works[0].problem, ca_trust_check, &program);
    reading->compile_seconds = ca_stopwatch_now() - begin;
    if (status != CLATTN_SUCCESS)
        fail_build(m, candidate, reading);
    else
        reading->binary = hash_binary(m->ctx, program);
    ca_program_put_back(m->ctx, program);
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* Judges the results of the last execution. */
static clattn_status judge(struct ca_measuring *m, struct ca_work *work, struct ca_reading *reading)
{
    const clattn_status status =
        ca_trust_case_download(m->ctx, &work->data, m->queue, work->buffers);

    if (status == CLATTN_SUCCESS &&
        ca_trust_case_judge(&work->data, &reading->error, reading->reason, sizeof reading->reason))
        reading->outcome = CA_WRONG;
    return status;
}

/* The first execution, on outputs that hold NaN. */
static clattn_status check(struct ca_measuring *m, struct ca_work *work, struct ca_ready *ready,
                           const struct ca_tensors *tensors, struct ca_reading *reading)
{
    clattn_status status = ca_trust_case_clear(m->ctx, &work->data, m->queue, work->buffers);

    if (status == CLATTN_SUCCESS)
        status = ca_stopwatch_read(&m->watch, ready->plan, tensors, 1, &ready->seconds);
    return status == CLATTN_SUCCESS ? judge(m, work, reading) : status;
}

static void check_and_time(struct ca_measuring *m, struct ca_work *work, struct ca_ready *ready,
                           const struct ca_tensors *tensors, double best,
                           struct ca_reading *reading)
{
    clattn_status status = check(m, work, ready, tensors, reading);

    if (status == CLATTN_SUCCESS && reading->outcome == CA_CORRECT)
        status = ca_stopwatch_time(&m->watch, ready->plan, tensors, ready->seconds, best, reading);
    if (status == CLATTN_SUCCESS && reading->outcome == CA_CORRECT) {
        ready->seconds = reading->times[reading->num_times - 1];
        /* Executes once more: a race between work-items may err only now and then. Outputs that
         * executions add to start again. */
        status = ca_problem_accumulates(&work->problem.normal)
                     ? check(m, work, ready, tensors, reading)
                     : judge(m, work, reading);
    }
    if (status != CLATTN_SUCCESS)
        fail(m, CA_RUNTIME_FAILED, reading);
}

static void measure(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *reading)
{
    struct ca_measuring *m = user;
    struct ca_work *work;
    struct ca_ready *ready;
    struct ca_tensors tensors;

    reading->outcome = CA_CORRECT;
    reading->num_times = 0;
    reading->error = 0.0;
    reading->reason[0] = '\0';
    if (is_refused(m, problem, candidate, reading))
        return;
    ca_capture_forget(&m->capture);
    clattn_status status = ca_work_open(m, problem, &work);
    if (status != CLATTN_SUCCESS) { /* the failure is not the candidate's fault */
        fail(m, CA_CONSTRAINT_FAILED, reading);
        return;
    }
    status = ca_ready_open(m, problem, candidate, &ready);
    if (status == CLATTN_SUCCESS)
        status = ca_work_tensors(m, work, ready->plan, &tensors);
    if (status != CLATTN_SUCCESS)
        fail_build(m, candidate, reading);
    else
        check_and_time(m, work, ready, &tensors, best, reading);
}

/* A reading follows on an execution of the same kernels, as in measure(), unless they take so long
 * that what came before does not matter. */
#define SETTLED_SECONDS 0.01

static clattn_status read_once(struct ca_measuring *m, size_t problem,
                               const struct ca_candidate *candidate, double *seconds)
{
    struct ca_work *work;
    struct ca_ready *ready;
    struct ca_tensors tensors;

    clattn_status status = ca_ready_open(m, problem, candidate, &ready);
    if (status == CLATTN_SUCCESS)
        status = ca_work_open(m, problem, &work);
    if (status == CLATTN_SUCCESS)
        status = ca_work_tensors(m, work, ready->plan, &tensors);
    const int known = ready->seconds > 0.0;
    if (status == CLATTN_SUCCESS && !known) /* the first may wait for the compiler */
        status = ca_stopwatch_read(&m->watch, ready->plan, &tensors, 1, seconds);
    if (status == CLATTN_SUCCESS && ready->seconds < SETTLED_SECONDS)
        status = ca_stopwatch_read(&m->watch, ready->plan, &tensors, 1, seconds);
    if (status == CLATTN_SUCCESS && !known)
        ready->seconds = *seconds;
    if (status == CLATTN_SUCCESS)
        status = ca_stopwatch_read(&m->watch, ready->plan, &tensors,
                                   ca_stopwatch_executions(&m->watch, ready->seconds), seconds);
    return status;
}

static void take_round(void *user, size_t problem, const struct ca_candidate *candidates,
                       size_t count, double *seconds)
{
    struct ca_measuring *m = user;

    for (size_t n = 0; n < count; n++) {
        struct ca_reading unused;
        seconds[n] = INFINITY;
        if (is_refused(m, problem, &candidates[n], &unused))
            continue;
        ca_capture_forget(&m->capture);
        if (read_once(m, problem, &candidates[n], &seconds[n]) != CLATTN_SUCCESS) {
            seconds[n] = INFINITY;
            m->lost = !is_alive(m);
        }
    }
}

/* ---- making --------------------------------------------------------------------------------- */

static clattn_status add_problem(struct ca_measuring *m, const struct ca_problem *problem,
                                 const struct ca_log *log)
{
    const clattn_device_info *dev = &m->ctx->device;
    struct ca_work *work = &m->works[m->num_works];
    size_t sizes[CA_WORKSPACE];
    char text[256];

    work->problem = *problem;
    clattn_problem_print(&problem->given, text, sizeof text, NULL);
    if (ca_problem_empty(&problem->normal))
        return ca_fail(log, CLATTN_INVALID_PROBLEM, "'%s' has nothing to measure", text);
    ca_trust_case_sizes(&work->problem.normal, sizes);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        work->bytes += sizes[n];
        if (sizes[n] > dev->max_allocation_bytes || work->bytes < sizes[n] ||
            work->bytes > dev->global_memory_bytes / 4)
            return ca_fail(log, CLATTN_OUT_OF_MEMORY,
                           "'%s' is too large to be measured: its tensors exceed the device's "
                           "largest allocation or a quarter of its memory",
                           text);
    }
    m->num_works++;
    return CLATTN_SUCCESS;
}

/* A context of the measurer's own, on the same OpenCL context and device. It keeps nothing on disk:
 * hundreds of programs that lose are not worth it, and some drivers take as long to hand one out as
 * to compile it. */
static clattn_status make_context(struct ca_measuring *m, const clattn_context *ctx)
{
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = ca_capture_message,
                                            .log_user_data = &m->capture,
                                            .skip_self_checks = ctx->skip_self_checks,
                                            .cache_directory = "",
                                            .profile = ctx->narrowed ? &ctx->device : NULL};
    const clattn_status status =
        clattn_context_create(ctx->cl, ctx->device.device, &options, &m->ctx);

    return status == CLATTN_SUCCESS
               ? status
               : ca_fail(&ctx->log, status, "no context to measure in: %s", m->capture.sentence);
}

static clattn_status fill(struct ca_measuring *m, clattn_context *ctx,
                          const struct ca_problem *problems, size_t count)
{
    cl_int err;

    m->capture.to = ctx->log;
    m->works = calloc(count, sizeof *m->works);
    if (!m->works)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a measurer");
    clattn_status status = make_context(m, ctx);
    for (size_t n = 0; n < count && status == CLATTN_SUCCESS; n++)
        status = add_problem(m, &problems[n], &ctx->log);
    if (status != CLATTN_SUCCESS)
        return status;
    m->queue =
        clCreateCommandQueue(m->ctx->cl, m->ctx->device.device, CL_QUEUE_PROFILING_ENABLE, &err);
    if (err != CL_SUCCESS) {
        m->queue = NULL;
        return ca_fail_cl(&ctx->log, err, "clCreateCommandQueue with profiling");
    }
    m->watch = (struct ca_stopwatch){.queue = m->queue, .log = &m->ctx->log};
    ca_stopwatch_init(&m->watch, &m->ctx->device);
    return CLATTN_SUCCESS;
}

static void end(void *user)
{
    struct ca_measuring *m = user;

    ca_measuring_empty(m);
    if (m->queue)
        clReleaseCommandQueue(m->queue);
    clattn_context_release(m->ctx);
    free(m->works);
    free(m);
}

clattn_status ca_measurer_create(clattn_context *ctx, const struct ca_problem *problems,
                                 size_t count, struct ca_measurer *measurer)
{
    struct ca_measuring *m = calloc(1, sizeof *m);

    memset(measurer, 0, sizeof *measurer);
    if (!m)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a measurer");
    const clattn_status status = fill(m, ctx, problems, count);
    if (status != CLATTN_SUCCESS) {
        end(m);
        return status;
    }
    *measurer = (struct ca_measurer){
        .user = m, .build = build, .measure = measure, .round = take_round, .close = end};
    return CLATTN_SUCCESS;
}
