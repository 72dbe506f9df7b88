/* SPDX-License-Identifier: Apache-2.0 */
/* Every mistake in the arguments of clattn_project() and clattn_project_host(): status, sentence,
 * and that nothing was enqueued. */
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

TestSuite(projection_calls, .init = unoptimised, .timeout = 120);

static const char problem_text[] = "proj f32 b2 h3/2 q5 d4/6 bias=f32";
static const char without_bias[] = "proj f32 q5 d4/6 accumulate";
enum { X_BYTES = 2 * 2 * 5 * 4 * 4, W_BYTES = 2 * 4 * 3 * 6 * 4, Y_BYTES = 2 * 3 * 5 * 6 * 4 };
enum { BIAS_BYTES = 3 * 6 * 4 };

/* A sound call, which each test spoils in one place. */
struct call {
    struct fixture f;
    clattn_plan *plan;
    clattn_projection_tensors tensors;
    long commands; /* enqueued before the call under test */
};

static void open(struct call *c)
{
    memset(c, 0, sizeof *c);
    fixture_open(&c->f);
    c->plan = fixture_plan(&c->f, problem_text, NULL);
    c->tensors =
        (clattn_projection_tensors){.struct_size = sizeof c->tensors,
                                    .x = {.buffer = fixture_buffer(&c->f, X_BYTES, NULL)},
                                    .w = {.buffer = fixture_buffer(&c->f, W_BYTES, NULL)},
                                    .bias = {.buffer = fixture_buffer(&c->f, BIAS_BYTES, NULL)},
                                    .y = {.buffer = fixture_buffer(&c->f, Y_BYTES, NULL)}};
    c->commands = faults_commands();
}

static void close(struct call *c)
{
    clReleaseMemObject(c->tensors.x.buffer);
    clReleaseMemObject(c->tensors.w.buffer);
    clReleaseMemObject(c->tensors.bias.buffer);
    clReleaseMemObject(c->tensors.y.buffer);
    clattn_plan_release(c->plan);
    fixture_close(&c->f);
}

static void refused_by(struct call *c, const clattn_plan *plan,
                       const clattn_projection_tensors *tensors, clattn_status want,
                       const char *words)
{
    cl_event done = (cl_event)(void *)c;
    const clattn_status status = clattn_project(plan, c->f.queue, tensors, 0, NULL, &done);

    fixture_refused(&c->f, status, want, words);
    cr_expect(done == NULL, "done is left behind (%s)", words);
    cr_expect(faults_commands() == c->commands, "something was enqueued (%s)", words);
}

static void refused(struct call *c, const clattn_projection_tensors *tensors, clattn_status want,
                    const char *words)
{
    refused_by(c, c->plan, tensors, want, words);
}

static clattn_buffer *buffer_of(clattn_projection_tensors *t, size_t n)
{
    clattn_buffer *const buffers[] = {&t->x, &t->w, &t->bias, &t->y};

    return buffers[n];
}

static const char *const names[] = {"x", "w", "bias", "y"};

/* Nothing of what the tests spoil is wrong to begin with; the bias's offset may be any. */
Test(projection_calls, the_unspoilt_call_works) {
    struct call c;
    cl_event done = NULL;

    open(&c);
    cr_assert(clattn_project(c.plan, c.f.queue, &c.tensors, 0, NULL, &done) == CLATTN_SUCCESS, "%s",
              c.f.log.last);
    cr_assert(done != NULL && clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(done);
    cr_assert(clattn_project(c.plan, c.f.queue, &c.tensors, 0, NULL, NULL) == CLATTN_SUCCESS);
    close(&c);
}

Test(projection_calls, nulls_and_sizes) {
    struct call c;
    cl_event done;

    open(&c);
    done = (cl_event)(void *)&c;
    cr_expect(clattn_project(NULL, c.f.queue, &c.tensors, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    fixture_refused(&c.f, clattn_project(c.plan, NULL, &c.tensors, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "queue");
    fixture_refused(&c.f, clattn_project(c.plan, c.f.queue, &c.tensors, 1, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "num_wait");
    refused(&c, NULL, CLATTN_INVALID_ARGUMENT, "tensors");
    clattn_projection_tensors t = c.tensors;
    t.struct_size--;
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "struct_size");
    close(&c);
}

Test(projection_calls, missing_short_and_superfluous_buffers) {
    struct call c;

    open(&c);
    for (size_t n = 0; n < 4; n++) {
        clattn_projection_tensors t = c.tensors;
        buffer_of(&t, n)->buffer = NULL;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT, names[n]);
        t = c.tensors;
        buffer_of(&t, n)->offset = 1;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, names[n]);
        buffer_of(&t, n)->offset = SIZE_MAX;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "reaches");
    }
    clattn_plan *plan = fixture_plan(&c.f, without_bias, NULL);
    refused_by(&c, plan, &c.tensors, CLATTN_INVALID_ARGUMENT, "bias is given");
    clattn_plan_release(plan);
    close(&c);
}

/* y overlaps nothing; what is read may. */
Test(projection_calls, overlaps) {
    struct call c;

    open(&c);
    cl_mem large = fixture_buffer(&c.f, 4 * (X_BYTES + W_BYTES + Y_BYTES), NULL);
    for (size_t n = 0; n < 3; n++) {
        clattn_projection_tensors t = c.tensors;
        buffer_of(&t, n)->buffer = large;
        t.y = (clattn_buffer){.buffer = large, .offset = 1};
        refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
        t.y.offset = (X_BYTES + W_BYTES) / 4;
        cr_expect(clattn_project(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS, "%s",
                  c.f.log.last);
        c.commands = faults_commands();
    }
    clattn_projection_tensors t = c.tensors;
    t.x.buffer = t.w.buffer = t.bias.buffer = large;
    cr_expect(clattn_project(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS, "%s",
              c.f.log.last);
    cr_expect(clFinish(c.f.queue) == CL_SUCCESS);
    clReleaseMemObject(large);
    close(&c);
}

/* y is written, and read too if it accumulates. */
Test(projection_calls, buffers_of_the_wrong_kind) {
    struct call c;
    cl_int err;

    open(&c);
    clattn_plan *adding = fixture_plan(&c.f, without_bias, NULL);
    clattn_projection_tensors t = c.tensors;
    t.y.buffer = clCreateBuffer(c.f.opencl, CL_MEM_READ_ONLY, Y_BYTES, NULL, &err);
    cr_assert(err == CL_SUCCESS);
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "CL_MEM_READ_ONLY");
    t.bias.buffer = NULL;
    refused_by(&c, adding, &t, CLATTN_INVALID_ARGUMENT, "CL_MEM_READ_ONLY");
    clReleaseMemObject(t.y.buffer);
    t.y.buffer = clCreateBuffer(c.f.opencl, CL_MEM_WRITE_ONLY, Y_BYTES, NULL, &err);
    cr_assert(err == CL_SUCCESS);
    refused_by(&c, adding, &t, CLATTN_INVALID_ARGUMENT, "CL_MEM_WRITE_ONLY");
    t.bias.buffer = c.tensors.bias.buffer;
    cr_expect(clattn_project(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS, "%s",
              c.f.log.last);
    c.commands = faults_commands();
    t.x.buffer = t.y.buffer;
    t.y.buffer = c.tensors.y.buffer;
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "CL_MEM_WRITE_ONLY");
    clReleaseMemObject(t.x.buffer);
    clattn_plan_release(adding);
    close(&c);
}

/* Each function takes plans of its operation only. */
Test(projection_calls, plans_of_other_operations) {
    const clattn_forward_tensors forward = {.struct_size = sizeof forward};
    const clattn_backward_tensors backward = {.struct_size = sizeof backward};
    struct call c;

    open(&c);
    clattn_plan *attention = fixture_plan(&c.f, "fwd f32 q3 d8", NULL);
    refused_by(&c, attention, &c.tensors, CLATTN_INVALID_ARGUMENT, "not a projection");
    fixture_refused(&c.f, clattn_attention_forward(c.plan, c.f.queue, &forward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "not attention");
    fixture_refused(&c.f, clattn_attention_backward(c.plan, c.f.queue, &backward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "not gradients");
    clattn_plan_release(attention);
    close(&c);
}

/* An empty problem needs no buffers, and its event stands for the wait list. */
DeviceTest(projection_calls, empty_problems)
{
    const clattn_projection_tensors none = {.struct_size = sizeof none};
    cl_event done = NULL;

    clattn_plan *plan = fixture_plan(f, "proj f32 b0 q5 d4", NULL);
    const clattn_projection_tensors w = {.struct_size = sizeof w,
                                         .w = {.buffer = fixture_buffer(f, 64, NULL)}};
    fixture_refused(f, clattn_project(plan, f->queue, &none, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "w must not be null");
    cr_expect(clattn_project(plan, f->queue, &w, 0, NULL, &done) == CLATTN_SUCCESS);
    cr_assert(done != NULL && clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(done);
    clReleaseMemObject(w.w.buffer);
    clattn_plan_release(plan);
}

/* The n-th allocation or OpenCL call fails, for every n. */
static void with_faults(struct fixture *f, const clattn_problem *p,
                        const clattn_host_projection_tensors *tensors, enum fault_kind kind,
                        cl_int error)
{
    const char *failed = "";

    for (size_t n = 0; failed && n < 400; n++) {
        const long objects = faults_objects_alive(NULL, 0);
        const long allocations = faults_allocations_alive();
        faults_arm(kind, n, error);
        const clattn_status status = clattn_project_host(f->context, p, NULL, tensors);
        failed = faults_disarm();
        /* the closing clFinish() has nobody to tell: the results are there */
        const int closing = failed && strcmp(failed, "clFinish") == 0;
        cr_assert(status == (!failed || closing ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY),
                  "%s failed: %s", failed, clattn_status_string(status));
        cr_assert(objects == faults_objects_alive(NULL, 0), "%s: objects leak", failed);
        cr_assert(allocations == faults_allocations_alive(), "%s: memory leaks", failed);
    }
    cr_assert(failed == NULL, "there is no end of calls");
}

DeviceTest(projection_calls, what_may_fail)
{
    static float x[X_BYTES / 4], w[W_BYTES / 4], y[Y_BYTES / 4], bias[BIAS_BYTES / 4];
    const clattn_problem p = fixture_problem(problem_text);
    const clattn_host_projection_tensors tensors = {
        .struct_size = sizeof tensors, .x = x, .w = w, .bias = bias, .y = y};

    cr_assert(clattn_project_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last); /* the program is built and stays */
    with_faults(f, &p, &tensors, FAULT_MEMORY, 0);
    with_faults(f, &p, &tensors, FAULT_OPENCL, CL_OUT_OF_RESOURCES);
}

/* A self-check for which there is no memory is no verdict. */
Test(projection_calls, self_checks_without_memory) {
    const clattn_problem p = fixture_problem("proj f32 q5 d4/6 bias=f16 accumulate");
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .family = clattn_family_name(CLATTN_PROJECTION, 0)};
    const char *failed = "";
    clattn_plan *plan;
    struct fixture f;

    fixture_open_checked(&f, "");
    for (size_t n = 0; failed && n < 400; n++) {
        faults_arm(FAULT_MEMORY, n, 0);
        const clattn_status status = clattn_plan_create(f.context, &p, &options, &plan);
        failed = faults_disarm();
        cr_assert(status == (failed ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS), "%s: %s", failed,
                  clattn_status_string(status));
        cr_assert((plan != NULL) == (status == CLATTN_SUCCESS));
        clattn_plan_release(plan);
    }
    cr_assert(failed == NULL, "there is no end of calls");
    fixture_close(&f);
}

static void host_refused(struct fixture *f, const clattn_problem *p,
                         const clattn_host_projection_tensors *tensors, clattn_status want,
                         const char *words)
{
    fixture_refused(f, clattn_project_host(f->context, p, NULL, tensors), want, words);
}

DeviceTest(projection_calls, host_memory)
{
    static float numbers[X_BYTES + W_BYTES], y[Y_BYTES / 4], bias[BIAS_BYTES / 4];
    const clattn_problem p = fixture_problem(problem_text);
    const clattn_problem attention = fixture_problem("fwd f32 q3 d8");
    const clattn_host_projection_tensors sound = {
        .struct_size = sizeof sound, .x = numbers, .w = numbers, .bias = bias, .y = y};

    clattn_host_projection_tensors t = sound;
    cr_expect(clattn_project_host(NULL, &p, NULL, &t) == CLATTN_INVALID_ARGUMENT);
    host_refused(f, &p, NULL, CLATTN_INVALID_ARGUMENT, "tensors");
    host_refused(f, NULL, &t, CLATTN_INVALID_ARGUMENT, "problem");
    t.struct_size = 1;
    host_refused(f, &p, &t, CLATTN_INVALID_ARGUMENT, "struct_size");
    t = sound;
    t.x = NULL;
    host_refused(f, &p, &t, CLATTN_INVALID_ARGUMENT, "x must not be null");
    t = sound;
    t.y = numbers + 1;
    host_refused(f, &p, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
    host_refused(f, &attention, &sound, CLATTN_INVALID_ARGUMENT, "not the operation");
    cr_expect(clattn_project_host(f->context, &p, NULL, &sound) == CLATTN_SUCCESS, "%s",
              f->log.last);
}
