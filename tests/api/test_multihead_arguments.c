/* SPDX-License-Identifier: Apache-2.0 */
/* Every mistake in the arguments of a layer's calls: status, sentence, and that nothing was
 * enqueued. */
#include "tests/faults/faults.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(multihead_arguments, .init = unoptimised, .timeout = 180);

/* A sound call, which each test spoils in one place. */
struct call {
    struct fixture f;
    struct layer_case c;
    clattn_operation operation;
    clattn_multihead_plan *plan;
    struct layer_arguments arguments;
    long commands; /* enqueued before the call under test */
};

static const char everything[] =
    "layer fwd f32 b2 h4/2 q3 k5 d5/12 softcap=3 window=4,9 bias=f32:qk mask=bk alibi sinks klen "
    "dropout=0.2 model=6 separate=4,7 output=3 biases obias training weights=heads";
static const char plain[] = "layer fwd f32 b2 h2 q3 k3 d8 model=5 packed";
static const char trained[] = "layer fwd f32 b2 h2 q3 k3 d8 model=5 packed training";

static void open(struct call *c, const char *text, const clattn_operation operation)
{
    const clattn_multihead layer = layer_parsed(text), gradients = layer_backward(&layer);

    fixture_open(&c->f);
    layer_case_open(&c->f, &c->c, &layer, 1);
    c->operation = operation;
    c->plan = layer_plan(&c->f, operation == CLATTN_BACKWARD ? &gradients : &layer);
    c->arguments = layer_case_arguments(&c->c);
    c->commands = faults_commands();
}

static void close(struct call *c)
{
    clattn_multihead_plan_release(c->plan);
    layer_case_close(&c->c);
    fixture_close(&c->f);
}

/* Calls with the arguments given; the event must come back NULL, the sentence must hold words. */
static void refused_on(struct call *c, const struct layer_arguments *arguments,
                       cl_command_queue queue, const clattn_status want, const char *words)
{
    cl_event done = (cl_event)(void *)c;
    const clattn_status status =
        layer_execute(c->operation, c->plan, queue, arguments, 0, NULL, &done);

    fixture_refused(&c->f, status, want, words);
    cr_expect(done == NULL, "done is left behind (%s)", words);
    cr_expect(faults_commands() == c->commands, "something was enqueued (%s)", words);
}

static void refused(struct call *c, const struct layer_arguments *arguments,
                    const clattn_status want, const char *words)
{
    refused_on(c, arguments, c->f.queue, want, words);
}

/* Forward and backward of a layer with every tensor. */
static const clattn_operation operations[] = {CLATTN_FORWARD, CLATTN_BACKWARD};

Test(multihead_arguments, the_unspoilt_call_works) {
    for (int n = 0; n < 2; n++) {
        struct call c;
        cl_event done = NULL;
        open(&c, everything, operations[n]);
        cr_assert(layer_execute(c.operation, c.plan, c.f.queue, &c.arguments, 0, NULL, &done) ==
                      CLATTN_SUCCESS,
                  "%s", c.f.log.last);
        cr_assert(done != NULL && clWaitForEvents(1, &done) == CL_SUCCESS);
        clReleaseEvent(done);
        close(&c);
    }
}

Test(multihead_arguments, nulls_and_sizes) {
    clattn_multihead_forward_tensors forward = {.struct_size = sizeof forward};
    clattn_multihead_backward_tensors backward = {.struct_size = sizeof backward};
    struct call c;
    cl_event done;

    open(&c, plain, CLATTN_FORWARD);
    done = (cl_event)(void *)&c;
    cr_expect(clattn_multihead_forward(NULL, c.f.queue, &forward, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    done = (cl_event)(void *)&c;
    cr_expect(clattn_multihead_backward(NULL, c.f.queue, &backward, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    refused_on(&c, &c.arguments, NULL, CLATTN_INVALID_ARGUMENT, "queue");
    fixture_refused(&c.f, clattn_multihead_forward(c.plan, c.f.queue, NULL, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "tensors");
    forward.struct_size--;
    fixture_refused(&c.f, clattn_multihead_forward(c.plan, c.f.queue, &forward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "struct_size");
    fixture_refused(&c.f, clattn_multihead_backward(c.plan, c.f.queue, &backward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "not its gradients");
    backward.struct_size++;
    fixture_refused(&c.f, clattn_multihead_backward(c.plan, c.f.queue, &backward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "struct_size");
    close(&c);
}

/* A tensor that may be left out: a gradient of inputs or parameters. */
static int optional(const enum layer_tensor id)
{
    return id >= LAYER_DX && id <= LAYER_DB_O;
}

Test(multihead_arguments, missing_tensors) {
    for (int n = 0; n < 2; n++) {
        struct call c;
        open(&c, everything, operations[n]);
        for (int id = 0; id < NUM_LAYER_TENSORS; id++) {
            struct layer_arguments a = c.arguments;
            if (!layer_argument_of(c.operation, (enum layer_tensor)id) || !a.at[id].buffer ||
                optional((enum layer_tensor)id))
                continue;
            a.at[id].buffer = NULL;
            refused(&c, &a, CLATTN_INVALID_ARGUMENT, layer_tensor_name((enum layer_tensor)id));
        }
        struct layer_arguments a = c.arguments;
        a.reserve.buffer = NULL;
        refused(&c, &a, CLATTN_INVALID_ARGUMENT, "reserve must not be null");
        close(&c);
    }
}

Test(multihead_arguments, superfluous_tensors) {
    for (int n = 0; n < 2; n++) {
        struct call c;
        open(&c, n ? trained : plain, operations[n]);
        cl_mem extra = fixture_buffer(&c.f, 4096, NULL);
        for (int id = 0; id < NUM_LAYER_TENSORS; id++) {
            struct layer_arguments a = c.arguments;
            if (!layer_argument_of(c.operation, (enum layer_tensor)id) || a.at[id].buffer)
                continue;
            a.at[id].buffer = extra;
            refused(&c, &a, CLATTN_INVALID_ARGUMENT, layer_tensor_name((enum layer_tensor)id));
        }
        struct layer_arguments a = c.arguments;
        a.reserve.buffer = extra;
        if (n == 0)
            refused(&c, &a, CLATTN_INVALID_ARGUMENT, "reserve is given");
        clReleaseMemObject(extra);
        close(&c);
    }
}

static void refused_if_short(struct call *c, struct layer_arguments *a, clattn_buffer *buffer,
                             const size_t bytes)
{
    const clattn_buffer whole = *buffer;

    buffer->offset = SIZE_MAX;
    refused(c, a, CLATTN_BUFFER_TOO_SMALL, "reaches");
    *buffer = (clattn_buffer){.buffer = fixture_buffer(&c->f, bytes > 1 ? bytes - 1 : 1, NULL),
                              .offset = bytes == 1};
    refused(c, a, CLATTN_BUFFER_TOO_SMALL, "reaches");
    clReleaseMemObject(buffer->buffer);
    *buffer = whole;
}

Test(multihead_arguments, short_buffers) {
    for (int n = 0; n < 2; n++) {
        clattn_multihead_info info = {.struct_size = sizeof info};
        struct call c;
        open(&c, everything, operations[n]);
        struct layer_arguments a = c.arguments;
        for (int id = 0; id < NUM_LAYER_TENSORS; id++) {
            const struct layer_buffer *t = &c.c.tensor[id];
            if (layer_argument_of(c.operation, (enum layer_tensor)id) && t->elements > 0)
                refused_if_short(&c, &a, &a.at[id], t->elements * t->element_bytes);
        }
        clattn_multihead_plan_describe(c.plan, &info);
        cr_assert(info.reserve_bytes > 4);
        refused_if_short(&c, &a, &a.reserve, info.reserve_bytes);
        close(&c);
    }
}

/* Forward without training, and backward, keep what lies between the steps in the workspace. */
Test(multihead_arguments, workspace) {
    for (int n = 0; n < 2; n++) {
        clattn_multihead_info info = {.struct_size = sizeof info};
        struct call c;
        open(&c, n ? trained : plain, operations[n]);
        struct layer_arguments a = c.arguments;
        clattn_multihead_plan_describe(c.plan, &info);
        cr_assert(info.workspace_bytes > 4);
        a.workspace.buffer = fixture_buffer(&c.f, info.workspace_bytes, NULL);
        refused_if_short(&c, &a, &a.workspace, info.workspace_bytes);
        cl_mem shared = a.at[LAYER_X].buffer;
        a.at[LAYER_X].buffer = a.workspace.buffer;
        refused(&c, &a, CLATTN_INVALID_ARGUMENT, "workspace, which is written, overlaps x");
        a.at[LAYER_X].buffer = shared;
        cr_expect(layer_execute(c.operation, c.plan, c.f.queue, &a, 0, NULL, NULL) ==
                  CLATTN_SUCCESS);
        clReleaseMemObject(a.workspace.buffer);
        close(&c);
    }
}

/* What is read may overlap; what is written overlaps nothing. */
Test(multihead_arguments, overlaps) {
    static const enum layer_tensor written[] = {LAYER_Y, LAYER_DX};

    for (int n = 0; n < 2; n++) {
        struct call c;
        open(&c, trained, operations[n]);
        struct layer_arguments a = c.arguments;
        cl_mem big = fixture_buffer(&c.f, 16384, NULL);
        a.at[LAYER_X] = (clattn_buffer){.buffer = big}; /* 30 floats */
        a.at[LAYER_W_Q] = (clattn_buffer){.buffer = big, .offset = 10};
        cr_expect(layer_execute(c.operation, c.plan, c.f.queue, &a, 0, NULL, NULL) ==
                      CLATTN_SUCCESS,
                  "%s", c.f.log.last);
        c.commands = faults_commands();
        a.at[LAYER_W_Q] = c.arguments.at[LAYER_W_Q];
        a.at[written[n]] = (clattn_buffer){.buffer = big, .offset = 29};
        refused(&c, &a, CLATTN_INVALID_ARGUMENT, "overlaps x");
        a.at[written[n]].offset = 30;
        cr_expect(layer_execute(c.operation, c.plan, c.f.queue, &a, 0, NULL, NULL) ==
                  CLATTN_SUCCESS);
        c.commands = faults_commands();
        a.reserve = (clattn_buffer){.buffer = big, .offset = 59}; /* the last of what is written */
        refused(&c, &a, CLATTN_INVALID_ARGUMENT, "overlaps");
        clFinish(c.f.queue);
        clReleaseMemObject(big);
        close(&c);
    }
}

Test(multihead_arguments, foreign_objects_and_access) {
    struct call c;
    cl_int err;

    open(&c, trained, CLATTN_FORWARD);
    cl_context other = clCreateContext(NULL, 1, &c.f.device, NULL, NULL, &err);
    cl_command_queue queue = clCreateCommandQueue(other, c.f.device, 0, &err);
    refused_on(&c, &c.arguments, queue, CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    clReleaseCommandQueue(queue);
    struct layer_arguments a = c.arguments;
    a.at[LAYER_W_O].buffer = clCreateBuffer(other, CL_MEM_READ_WRITE, 4096, NULL, &err);
    refused(&c, &a, CLATTN_INVALID_ARGUMENT, "w_o is a buffer of another OpenCL context");
    clReleaseMemObject(a.at[LAYER_W_O].buffer);
    cl_event event = clCreateUserEvent(other, &err);
    fixture_refused(&c.f,
                    layer_execute(c.operation, c.plan, c.f.queue, &c.arguments, 1, &event, NULL),
                    CLATTN_INVALID_ARGUMENT, "wait[0]");
    clSetUserEventStatus(event,
                         CL_COMPLETE); /* some drivers keep a context until its events have come */
    clReleaseEvent(event);
    clReleaseContext(other);
    fixture_refused(&c.f,
                    layer_execute(c.operation, c.plan, c.f.queue, &c.arguments, 1, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "wait");
    a = c.arguments;
    a.at[LAYER_Y].buffer = clCreateBuffer(c.f.opencl, CL_MEM_READ_ONLY, 4096, NULL, &err);
    refused(&c, &a, CLATTN_INVALID_ARGUMENT, "y is written by kernels");
    clReleaseMemObject(a.at[LAYER_Y].buffer);
    a = c.arguments;
    a.reserve.buffer = clCreateBuffer(c.f.opencl, CL_MEM_WRITE_ONLY, 4096, NULL, &err);
    refused(&c, &a, CLATTN_INVALID_ARGUMENT, "reserve is read by kernels");
    clReleaseMemObject(a.reserve.buffer);
    close(&c);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void no_plan(struct fixture *f, const clattn_multihead *layer, const unsigned flags,
                    const clattn_status want, const char *words)
{
    clattn_multihead_plan *plan = (clattn_multihead_plan *)(void *)f;
    const clattn_status status = clattn_multihead_plan_create(f->context, layer, flags, &plan);

    cr_expect(status == want && plan == NULL, "%s (%s)", clattn_status_string(status), words);
    cr_expect(fixture_said(f, words));
}

DeviceTest(multihead_arguments, plans)
{
    const clattn_multihead layer = layer_parsed(plain);
    clattn_multihead spoilt = layer;
    clattn_multihead_plan *plan;

    plan = (clattn_multihead_plan *)(void *)f;
    cr_expect(clattn_multihead_plan_create(NULL, &layer, 0, &plan) == CLATTN_INVALID_ARGUMENT);
    cr_expect(plan == NULL);
    cr_expect(clattn_multihead_plan_create(f->context, &layer, 0, NULL) == CLATTN_INVALID_ARGUMENT);
    no_plan(f, NULL, 0, CLATTN_INVALID_ARGUMENT, "null");
    no_plan(f, &layer, CLATTN_PLAN_MEASURE, CLATTN_INVALID_ARGUMENT, "flags");
    no_plan(f, &layer, 64, CLATTN_INVALID_ARGUMENT, "flags");
    no_plan(f, &layer, CLATTN_PLAN_KNOWN_ONLY | CLATTN_PLAN_UNTUNED, CLATTN_INVALID_ARGUMENT,
            "step 'qkv'");
    no_plan(f, &layer, CLATTN_PLAN_KNOWN_ONLY, CLATTN_NOT_TUNED, "step 'qkv'");
    spoilt.struct_size = 0;
    no_plan(f, &spoilt, 0, CLATTN_INVALID_ARGUMENT, "struct_size");
    spoilt = layer;
    spoilt.output = 0;
    no_plan(f, &spoilt, 0, CLATTN_INVALID_PROBLEM, "output");
    clattn_multihead_plan_release(NULL);
}

DeviceTest(multihead_arguments, descriptions)
{
    const clattn_multihead layer = layer_parsed(trained), gradients = layer_backward(&layer);
    clattn_multihead_info forward = {.struct_size = sizeof forward}, backward = forward;

    clattn_multihead_plan *plan = layer_plan(f, &layer), *other = layer_plan(f, &gradients);
    cr_assert(clattn_multihead_plan_describe(plan, &forward) == CLATTN_SUCCESS);
    cr_assert(clattn_multihead_plan_describe(other, &backward) == CLATTN_SUCCESS);
    cr_expect_str_eq(forward.layer, trained);
    cr_expect(forward.num_steps == 3 && backward.num_steps == 5);
    cr_expect(forward.reserve_bytes == backward.reserve_bytes && forward.reserve_bytes > 0);
    size_t lines = 0;
    for (const char *at = backward.steps; *at; at++)
        lines += *at == '\n';
    cr_expect(lines == backward.num_steps);
    cr_expect(strncmp(forward.steps, "qkv: ", 5) == 0, "%s", forward.steps);
    cr_expect(strstr(forward.steps, "proj f32 b1 h1 q6 d5/48 w=oi"), "%s", forward.steps);
    cr_expect(strstr(backward.steps, "\ndw_qkv: "), "%s", backward.steps);
    cr_expect(clattn_multihead_plan_describe(NULL, &forward) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_multihead_plan_describe(plan, NULL) == CLATTN_INVALID_ARGUMENT);
    forward.struct_size--;
    cr_expect(clattn_multihead_plan_describe(plan, &forward) == CLATTN_INVALID_ARGUMENT);
    clattn_multihead_plan_release(other);
    clattn_multihead_plan_release(plan);

    const clattn_multihead inference = layer_parsed(plain);
    forward.struct_size++;
    plan = layer_plan(f, &inference);
    cr_expect(clattn_multihead_plan_describe(plan, &forward) == CLATTN_SUCCESS);
    cr_expect(forward.reserve_bytes == 0);
    clattn_multihead_plan_release(plan);
}
