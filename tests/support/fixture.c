/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fixture.h"
#include "os/clock.h"

#include "context/context.h"
#include "device/facts.h"
#include "families/limits.h"
#include "problem/problem.h"
#include "program/build_log.h"
#include "program/program.h"
#include "tests/faults/faults.h"
#include "tests/support/programs/scratch.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

void log_message(const clattn_log_level level, const char *message, void *log)
{
    struct log *l = log;

    pthread_mutex_lock(&log_lock);
    l->warnings += level == CLATTN_LOG_WARNING;
    if (level != CLATTN_LOG_ERROR) {
        pthread_mutex_unlock(&log_lock);
        return;
    }
    l->errors++;
    snprintf(l->last, sizeof l->last, "%s", message);
    pthread_mutex_unlock(&log_lock);
}

static void open(struct fixture *f, const int skip_self_checks, const char *cache_directory,
                 const clattn_device_info *profile)
{
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = log_message,
                                            .log_user_data = &f->log,
                                            .skip_self_checks = skip_self_checks,
                                            .cache_directory = cache_directory,
                                            .profile = profile};
    cl_int err;

    memset(f, 0, sizeof *f);
    log_message(CLATTN_LOG_INFO, "", &f->log); /* mingw allocates a lock when it is taken first */
    const clattn_status status = clattn_context_create_default(NULL, &options, &f->context);
    cr_assert(status == CLATTN_SUCCESS, "no context: %s, %s", clattn_status_string(status),
              f->log.last);
    f->opencl = clattn_context_opencl(f->context);
    f->device = clattn_context_device(f->context)->device;
    f->queue = clCreateCommandQueue(f->opencl, f->device, 0, &err);
    cr_assert(err == CL_SUCCESS, "clCreateCommandQueue: %d", err);
}

void fixture_open(struct fixture *f)
{
    open(f, 1, "", NULL);
}

void fixture_open_checked(struct fixture *f, const char *cache_directory)
{
    open(f, 0, cache_directory, NULL);
}

void fixture_open_cached(struct fixture *f, const clattn_device_info *profile,
                         const char *cache_directory)
{
    open(f, 0, cache_directory, profile);
}

void fixture_open_narrowed(struct fixture *f, const clattn_device_info *profile)
{
    open(f, 1, "", profile);
}

void fixture_folder(void)
{
    unoptimised();
    scratch_open();
}

void fixture_need_cpu(const struct fixture *f)
{
    cl_device_type type = 0; /* the device's own, also where another is simulated */

    clGetDeviceInfo(f->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    if (!(type & CL_DEVICE_TYPE_CPU))
        cr_skip_test("for CPUs: instructions that a GPU would emulate in memory that it lacks");
}

void fixture_need_groups(const struct fixture *f)
{
    if (f->context->device.max_work_group_size == 1)
        cr_skip_test("no work-groups of several items: PoCL newer than 3 compiles them wrongly "
                     "(doc/design/drivers.md)");
}

size_t fixture_group_items(const struct ca_family *family, const struct ca_problem *p,
                           const size_t *values, const clattn_device_info *device)
{
    size_t most = 1;

    for (size_t n = 0; n < family->num_stages; n++) {
        const struct ca_ndrange range = ca_stage_range(&family->stages[n], p, values, device);
        const size_t items = range.local[0] * range.local[1] * range.local[2];
        most = items > most ? items : most;
    }
    return most;
}

const char *const fixture_examples[] = {
    [CLATTN_FORWARD] = "fwd f16 h4/2 q33 k65 d16",
    [CLATTN_BACKWARD] = "bwd f32 h2 q33 k65 d16",
    [CLATTN_PROJECTION] = "proj f32 q33 d65",
    [CLATTN_MERGE] = "merge f32 q33 d65 n3",
    [CLATTN_APPEND] = "append f32 q33 k65 d65",
    [CLATTN_DOUBLE_BACKWARD] = "bwd2 f32 h2 q33 k65 d16",
    [CLATTN_INDEXER] = "indexer f32 h2 q33 k65 d16 topk=8",
};

int fixture_has_groups(const struct ca_family *family, const clattn_device_info *device)
{
    const struct ca_problem p = fixture_checked(fixture_examples[family->operation]);
    size_t values[CA_MAX_TUNABLES] = {0};

    ca_family_suggest(family, &p, device, values);
    return fixture_group_items(family, &p, values, device) > 1;
}

void fixture_need_groups_of(const struct fixture *f, const char *name)
{
    const struct ca_family *family = name ? ca_family_find(name) : NULL;

    if (family && fixture_has_groups(family, &f->context->device))
        fixture_need_groups(f);
}

/* Returns whether cl/common/builtins.h is known to fit the driver. With others a program may be
 * built twice. */
static int declares_builtins(const clattn_context *context)
{
    return ca_facts_of_pocl(&context->device) &&
           (strstr(context->device.platform_version, "PoCL 3.1") ||
            strstr(context->device.platform_version, "PoCL 5.0") ||
            strstr(context->device.platform_version, "PoCL 6.0") ||
            strstr(context->device.platform_version, "PoCL 7.1"));
}

/* Returns whether the compiler may warn of vectors that it has no registers for: a profile claims
 * wider ones, or a GPU, whose kernels have vectors of 8 and 16 words. */
static int claims_wider_vectors(const struct fixture *f)
{
    const clattn_device_info *claimed = &f->context->device;
    cl_uint width = 0;

    clGetDeviceInfo(f->device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof width, &width, NULL);
    return claimed->vector_width_float > width ||
           (width < 16 && !(claimed->type & CL_DEVICE_TYPE_CPU));
}

/* PoCL says "1 warning generated." to its caller's users as well. */
static void expect_no_warnings(const clattn_context *context)
{
    for (const struct ca_program *made = context->programs; made; made = made->next) {
        if (made->state != CA_MADE || !made->cl)
            continue;
        char *words = ca_build_log(made->cl, context->device.device);
        cr_expect(words && words[0] == '\0', "%s: %.400s, built with '%s'", made->family->full_name,
                  words ? words : "its log cannot be read", made->options);
        free(words);
    }
}

void fixture_close(struct fixture *f)
{
    char alive[256];

    cr_assert(clFinish(f->queue) == CL_SUCCESS);
    clReleaseCommandQueue(f->queue);
    if (f->context && declares_builtins(f->context) && !claims_wider_vectors(f))
        expect_no_warnings(f->context);
    if (f->context && declares_builtins(f->context))
        cr_assert(atomic_load(&f->context->builtins_refused) == 0,
                  "cl/common/builtins.h is not enough: see the log of CLATTN_LOG_DETAIL");
    clattn_context_release(f->context);
    cr_assert(faults_objects_alive(alive, sizeof alive) == 0, "leaked: %s", alive);
}

clattn_plan *fixture_forced_plan(struct fixture *f, const clattn_problem *problem,
                                 const char *family, const char *tunables, const char *again)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = family, .tunables = tunables[0] ? tunables : NULL};
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(f->context, problem, &options, &plan);
    if (status == CLATTN_UNSUPPORTED)
        fixture_need_groups(f);
    cr_assert(status == CLATTN_SUCCESS, "plan: %s, %s%s", clattn_status_string(status), f->log.last,
              again);
    return plan;
}

clattn_problem fixture_problem(const char *text)
{
    clattn_problem problem;
    char reason[256];

    cr_assert(clattn_problem_parse(text, &problem, reason, sizeof reason) == CLATTN_SUCCESS,
              "'%s': %s", text, reason);
    return problem;
}

struct ca_problem fixture_checked(const char *text)
{
    const clattn_problem p = fixture_problem(text);

    return ca_problem_own(&p);
}

clattn_plan *fixture_plan(struct fixture *f, const char *problem, const char *family)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    const clattn_problem parsed = fixture_problem(problem);
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(f->context, &parsed, &options, &plan);
    if (status == CLATTN_UNSUPPORTED)
        fixture_need_groups(f);
    cr_assert(status == CLATTN_SUCCESS, "'%s' on %s: %s, %s", problem, family ? family : "any",
              clattn_status_string(status), f->log.last);
    return plan;
}

cl_mem fixture_buffer(struct fixture *f, const size_t bytes, const void *host)
{
    cl_int err;
    cl_mem buffer = clCreateBuffer(f->opencl, CL_MEM_READ_WRITE | (host ? CL_MEM_COPY_HOST_PTR : 0),
                                   bytes, (void *)host, &err);

    cr_assert(err == CL_SUCCESS, "clCreateBuffer of %zu bytes: %d", bytes, err);
    return buffer;
}

cl_command_queue fixture_queue(struct fixture *f, const cl_command_queue_properties properties)
{
    cl_int err;
    cl_command_queue queue = clCreateCommandQueue(f->opencl, f->device, properties, &err);

    if (err == CL_INVALID_QUEUE_PROPERTIES)
        cr_skip_test("the device has no out-of-order queues");
    cr_assert(err == CL_SUCCESS);
    return queue;
}

void fixture_expect_waiting(cl_command_queue queue, cl_event done)
{
    cl_int state = CL_COMPLETE;

    clFlush(queue);
    ca_nap(0.05);
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    cr_expect(state > CL_COMPLETE, "finished before what it waits for");
}

void fixture_read(struct fixture *f, cl_mem buffer, const size_t bytes, void *host)
{
    const cl_int err =
        clEnqueueReadBuffer(f->queue, buffer, CL_TRUE, 0, bytes, host, 0, NULL, NULL);

    cr_assert(err == CL_SUCCESS, "clEnqueueReadBuffer of %zu bytes: %d", bytes, err);
}

void fixture_expect_lists(struct fixture *f, const clattn_plan *plan,
                          const struct fixture_lists *lists, const cl_int *first,
                          const cl_int *second, const char *words)
{
    const cl_int *const numbers[2] = {first, second};
    clattn_forward_tensors tensors = {.struct_size = sizeof tensors};
    clattn_buffer *buffers[2];

    for (size_t n = 0; n < 2; n++) {
        buffers[n] = (clattn_buffer *)(void *)((char *)&tensors + lists->members[n]);
        buffers[n]->buffer = fixture_buffer(f, lists->counts[n] * sizeof(cl_int), numbers[n]);
    }
    const clattn_status status = clattn_check_tables(plan, f->queue, &tensors);
    const char *reason = status == CLATTN_SUCCESS ? "" : clattn_context_last_error(f->context);
    cr_expect(status == (words[0] ? CLATTN_INVALID_ARGUMENT : CLATTN_SUCCESS), "%s: %s", words,
              clattn_status_string(status));
    cr_expect(words[0] ? strstr(reason, words) != NULL : reason[0] == '\0', "'%s' without '%s'",
              reason, words);
    for (size_t n = 0; n < 2; n++)
        clReleaseMemObject(buffers[n]->buffer);
}

static void fail_each_of(struct fixture *f, fixture_attempt attempt, void *user,
                         cl_command_queue queue, const enum fault_kind kind, const cl_int error,
                         const clattn_status promised)
{
    enum { MOST_CALLS = 4000 };
    const char *failed = "";

    for (size_t n = 0; failed && n < MOST_CALLS; n++) {
        if (n >= 40 &&
            !run_takes(n, 8)) /* a driver whose own allocations count here has hundreds */
            continue;
        const struct faults_alive before = faults_alive();
        const size_t builds = clattn_context_builds(f->context);
        const long commands = faults_commands();
        f->log.errors = 0;
        faults_arm(kind, n, error);
        const clattn_status status = attempt(f, user);
        failed = faults_disarm();
        /* The last clFinish() has nobody to tell: the results are there. */
        const int tells_nobody = !failed || strcmp(failed, "clFinish") == 0;
        cr_assert(status == promised || (tells_nobody && status == CLATTN_SUCCESS), "%s failed: %s",
                  failed, clattn_status_string(status));
        cr_assert((f->log.errors > 0) == (status != CLATTN_SUCCESS), "%s: %zu sentences", failed,
                  f->log.errors);
        if (queue)
            cr_assert(!failed || strncmp(failed, "clGet", 5) != 0 || faults_commands() == commands);
        clFinish(queue ? queue : f->queue);
        if (clattn_context_builds(f->context) == builds) /* else the program is kept: no leak */
            faults_expect_alive(before, failed ? failed : "nothing", n);
    }
    cr_assert(failed == NULL, "there is no end of calls");
    f->log.errors = 0;
}

void fixture_fail_each(struct fixture *f, fixture_attempt attempt, void *user,
                       cl_command_queue queue)
{
    fail_each_of(f, attempt, user, queue, FAULT_MEMORY, 0, CLATTN_OUT_OF_MEMORY);
    fail_each_of(f, attempt, user, queue, FAULT_OPENCL, CL_OUT_OF_HOST_MEMORY,
                 CLATTN_OUT_OF_MEMORY);
    fail_each_of(f, attempt, user, queue, FAULT_OPENCL, CL_MEM_OBJECT_ALLOCATION_FAILURE,
                 CLATTN_OUT_OF_MEMORY);
    fail_each_of(f, attempt, user, queue, FAULT_OPENCL, CL_INVALID_OPERATION, CLATTN_OPENCL_ERROR);
}

struct call_of_buffers {
    clattn_buffer buffers[2];
    fixture_call *call;
};

static clattn_status attempt_call(struct fixture *f, void *user)
{
    const struct call_of_buffers *c = user;
    cl_event done = NULL;
    const clattn_status status = c->call(f, c->buffers, &done);

    cr_assert((done != NULL) == (status == CLATTN_SUCCESS));
    if (done)
        clReleaseEvent(done);
    return status;
}

static struct call_of_buffers open_call(struct fixture *f, const size_t bytes[2], fixture_call call)
{
    fixture_open_checked(f, "");
    return (struct call_of_buffers){{{.buffer = fixture_buffer(f, bytes[0], NULL)},
                                     {.buffer = fixture_buffer(f, bytes[1], NULL)}},
                                    call};
}

static void close_call(struct fixture *f, const struct call_of_buffers *c)
{
    clReleaseMemObject(c->buffers[1].buffer);
    clReleaseMemObject(c->buffers[0].buffer);
    fixture_close(f);
}

static cl_int refuse_to_build(void *user)
{
    (void)user;
    return CL_BUILD_PROGRAM_FAILURE;
}

void fixture_distrust(const size_t bytes[2], fixture_call call)
{
    struct fixture f;
    struct call_of_buffers c = open_call(&f, bytes, call);

    fixture_fail_each(&f, attempt_call, &c, NULL);
    close_call(&f, &c);

    c = open_call(&f, bytes, call);
    faults_arm(FAULT_LIES, 0, 0); /* once would be no verdict */
    cr_assert(attempt_call(&f, &c) == CLATTN_MISCOMPILED);
    faults_disarm();
    cr_assert(f.log.warnings > 0);
    cr_assert(attempt_call(&f, &c) == CLATTN_MISCOMPILED); /* for good */
    close_call(&f, &c);

    c = open_call(&f, bytes, call);
    faults_on_build(refuse_to_build, NULL);
    cr_assert(attempt_call(&f, &c) == CLATTN_BUILD_FAILED);
    faults_on_build(NULL, NULL);
    close_call(&f, &c);
}

int fixture_said(struct fixture *f, const char *words)
{
    const int said = f->log.errors > 0 && strstr(f->log.last, words) != NULL;

    if (!said)
        cr_log_error("%zu sentences, the last '%s', not '%s'", f->log.errors, f->log.last, words);
    memset(&f->log, 0, sizeof f->log);
    return said;
}

void fixture_refused(struct fixture *f, const clattn_status status, const clattn_status want,
                     const char *words)
{
    cr_expect(status == want, "%s instead of %s (%s)", clattn_status_string(status),
              clattn_status_string(want), words);
    cr_expect(fixture_said(f, words));
}
