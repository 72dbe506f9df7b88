/* SPDX-License-Identifier: Apache-2.0 */
/* Every mistake in the arguments of clattn_attention_forward(): status, sentence, and that
 * nothing was enqueued. */
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/tensors.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(arguments, .init = unoptimised, .timeout = 120);

/* A sound call, which each test spoils in one place. */
struct call {
    struct fixture f;
    clattn_problem problem;
    clattn_plan *plan;
    clattn_forward_tensors tensors;
    long commands; /* enqueued before the call under test */
};

static const char everything[] = "fwd f32 b2 h4/2 q3 k5 d8/4 bias=f16:qk mask=bk alibi sinks qlen "
                                 "klen blocks=2x2:4 lse scores=weights";
static const char plain[] = "fwd f32 q3 k5 d8";

static void open(struct call *c, const char *problem)
{
    memset(c, 0, sizeof *c);
    fixture_open(&c->f);
    c->problem = fixture_problem(problem);
    c->plan = fixture_plan(&c->f, problem, "unfused");
    c->tensors.struct_size = sizeof c->tensors;
    for (int id = 0; id < NUM_FORWARD_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c->problem, (enum tensor_id)id);
        if (s.present)
            tensor_buffer(&c->tensors, (enum tensor_id)id)->buffer =
                fixture_buffer(&c->f, s.extent * s.element_bytes, NULL);
    }
    c->commands = faults_commands();
}

static void release_buffer(cl_mem buffer)
{
    if (buffer)
        clReleaseMemObject(buffer);
}

static void close(struct call *c)
{
    for (int id = 0; id < NUM_FORWARD_TENSORS; id++)
        release_buffer(tensor_buffer(&c->tensors, (enum tensor_id)id)->buffer);
    clattn_plan_release(c->plan);
    fixture_close(&c->f);
}

/* Calls with the tensors given; the event must come back as NULL, the sentence must hold words. */
static void refused_with(struct call *c, const clattn_forward_tensors *tensors,
                         cl_command_queue queue, const clattn_status want, const char *words)
{
    cl_event done = (cl_event)(void *)c;
    const clattn_status status = clattn_attention_forward(c->plan, queue, tensors, 0, NULL, &done);

    fixture_refused(&c->f, status, want, words);
    cr_expect(done == NULL, "done is left behind (%s)", words);
    cr_expect(faults_commands() == c->commands, "something was enqueued (%s)", words);
}

static void refused(struct call *c, const clattn_forward_tensors *tensors, const clattn_status want,
                    const char *words)
{
    refused_with(c, tensors, c->f.queue, want, words);
}

/* Nothing of what the tests spoil is wrong to begin with. */
Test(arguments, the_unspoilt_call_works) {
    struct call c;
    cl_event done = NULL;

    open(&c, everything);
    cr_assert(clattn_attention_forward(c.plan, c.f.queue, &c.tensors, 0, NULL, &done) ==
                  CLATTN_SUCCESS,
              "%s", c.f.log.last);
    cr_assert(done != NULL && clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(done);
    close(&c);
}

Test(arguments, nulls_and_sizes) {
    struct call c;
    cl_event done;

    open(&c, plain);
    done = (cl_event)(void *)&c;
    cr_expect(clattn_attention_forward(NULL, c.f.queue, &c.tensors, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    refused_with(&c, &c.tensors, NULL, CLATTN_INVALID_ARGUMENT, "queue");
    refused(&c, NULL, CLATTN_INVALID_ARGUMENT, "tensors");
    clattn_forward_tensors t = c.tensors;
    t.struct_size--;
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "struct_size");
    close(&c);
}

/* Each tensor left out where the problem has it, and given where it has not. */
Test(arguments, missing_and_superfluous_tensors) {
    struct call c;

    open(&c, everything);
    for (int id = 0; id < NUM_FORWARD_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c.problem, (enum tensor_id)id);
        clattn_forward_tensors t = c.tensors;
        if (!s.present) /* of options that exclude others, or that the family lacks */
            continue;
        tensor_buffer(&t, (enum tensor_id)id)->buffer = NULL;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT, s.name);
    }
    close(&c);
    open(&c, plain);
    for (int id = TENSOR_BIAS; id < NUM_FORWARD_TENSORS; id++) {
        clattn_forward_tensors t = c.tensors;
        cl_mem extra = fixture_buffer(&c.f, 64, NULL);
        tensor_buffer(&t, (enum tensor_id)id)->buffer = extra;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT,
                tensor_shape_of(&c.problem, (enum tensor_id)id).name);
        clReleaseMemObject(extra);
    }
    close(&c);
}

Test(arguments, short_buffers) {
    struct call c;

    open(&c, everything);
    for (int id = 0; id < NUM_FORWARD_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c.problem, (enum tensor_id)id);
        clattn_forward_tensors t = c.tensors;
        clattn_buffer *b = tensor_buffer(&t, (enum tensor_id)id);
        if (!s.present)
            continue;
        b->offset = 1;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, s.name);
        b->offset = SIZE_MAX;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "reaches");
        b->offset = SIZE_MAX / s.element_bytes; /* its bytes overflow */
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "reaches");
        b->offset = 0;
        cl_mem whole = b->buffer;
        if (s.extent * s.element_bytes > 1) {
            b->buffer = fixture_buffer(&c.f, s.extent * s.element_bytes - 1, NULL);
            refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "reaches");
            clReleaseMemObject(b->buffer);
        }
        b->buffer = whole;
    }
    close(&c);
}

/* Sizes of quantized tensors are those of their blocks, and offsets lead to a block. */
Test(arguments, quantized) {
    static const struct {
        const char *problem;
        size_t k_bytes, v_bytes;
    } cases[] = {{"fwd f16 h2 q3 k5 d64/32 kcache=q8_0 vcache=q4_0", 2 * 5 * 2 * 34, 2 * 5 * 18},
                 {"fwd f32 h2 q3 k5 d64/32 kcache=q4_0 vcache=q8_0", 2 * 5 * 2 * 18, 2 * 5 * 34}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct call c;
        open(&c, cases[n].problem);
        release_buffer(c.tensors.k.buffer);
        release_buffer(c.tensors.v.buffer);
        c.tensors.k.buffer = fixture_buffer(&c.f, cases[n].k_bytes, NULL);
        c.tensors.v.buffer = fixture_buffer(&c.f, cases[n].v_bytes, NULL);
        clattn_forward_tensors t = c.tensors;
        t.k.offset = 16;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT, "k is quantized: its offset, 16,");
        t.k.offset = 32;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "k reaches over 640 elements from 32 on");
        t.k.offset = SIZE_MAX - 31;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "k reaches");
        t = c.tensors;
        t.v.buffer = fixture_buffer(&c.f, cases[n].v_bytes - 1, NULL);
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "v reaches over 320 elements");
        release_buffer(t.v.buffer);
        t = c.tensors; /* o starts right behind the last block of v, or one element before */
        t.v.buffer = t.o.buffer = fixture_buffer(&c.f, 2048, NULL);
        t.o.offset = cases[n].v_bytes / value_bytes(c.problem.dtype);
        cr_assert(clattn_attention_forward(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS);
        clFinish(c.f.queue);
        c.commands = faults_commands();
        t.o.offset--;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT, "o, which is written, overlaps v");
        release_buffer(t.v.buffer);
        close(&c);
    }
}

Test(arguments, workspace) {
    clattn_plan_info info = {.struct_size = sizeof info};
    struct call c;

    open(&c, plain);
    cr_assert(clattn_plan_describe(c.plan, &info) == CLATTN_SUCCESS);
    cr_assert(info.workspace_bytes >= 4, "this test needs a family with a workspace");
    clattn_forward_tensors t = c.tensors;
    t.workspace.buffer = fixture_buffer(&c.f, info.workspace_bytes - 1, NULL);
    refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "workspace");
    clReleaseMemObject(t.workspace.buffer);
    t.workspace.buffer = fixture_buffer(&c.f, info.workspace_bytes, NULL);
    t.workspace.offset = 1;
    refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "workspace");
    t.workspace.offset = 0;
    cr_expect(clattn_attention_forward(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS);
    clReleaseMemObject(t.workspace.buffer);
    close(&c);
}

/* One buffer for two tensors: allowed for those that are read, never with one that is written. */
Test(arguments, overlaps) {
    struct call c;

    open(&c, "fwd f32 q4 k4 d8 lse");
    cl_mem big = fixture_buffer(&c.f, 4096, NULL);
    clattn_forward_tensors t = c.tensors;
    t.q = (clattn_buffer){.buffer = big}; /* 32 floats each */
    t.k = (clattn_buffer){.buffer = big, .offset = 16};
    t.v = (clattn_buffer){.buffer = big};
    t.o = (clattn_buffer){.buffer = big, .offset = 48};
    cr_expect(clattn_attention_forward(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", c.f.log.last);
    c.commands = faults_commands();
    t.o.offset = 47;
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps k");
    t.o.offset = 48;
    t.lse = (clattn_buffer){.buffer = big, .offset = 79}; /* the last element of o */
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
    t.lse.offset = 80;
    cr_expect(clattn_attention_forward(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS);
    c.commands = faults_commands();
    t.workspace = (clattn_buffer){.buffer = big};
    clattn_plan_info info = {.struct_size = sizeof info};
    cr_assert(clattn_plan_describe(c.plan, &info) == CLATTN_SUCCESS && info.workspace_bytes > 0);
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
    clReleaseMemObject(big);
    close(&c);
}

Test(arguments, overlaps_of_sub_buffers) {
    struct call c;
    cl_int err;

    open(&c, "fwd f32 q4 k4 d8");
    cl_uint align = 0; /* in bits */
    clGetDeviceInfo(c.f.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align, &align, NULL);
    const size_t step = align / 8 > 128 ? align / 8 : 128;
    cl_mem big = fixture_buffer(&c.f, 4 * step, NULL);
    const cl_buffer_region low = {0, 2 * step}, high = {step, 2 * step};
    cl_mem a = clCreateSubBuffer(big, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &low, &err);
    cr_assert(err == CL_SUCCESS);
    cl_mem b = clCreateSubBuffer(big, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &high, &err);
    cr_assert(err == CL_SUCCESS);
    clattn_forward_tensors t = c.tensors;
    t.q = (clattn_buffer){.buffer = a, .offset = step / 4};
    t.o = (clattn_buffer){.buffer = b};
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
    t.q = (clattn_buffer){.buffer = big, .offset = step / 4 + 31};
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
    t.q = (clattn_buffer){.buffer = a};
    t.o = (clattn_buffer){.buffer = b, .offset = step / 4};
    cr_expect(clattn_attention_forward(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", c.f.log.last);
    clReleaseMemObject(b);
    clReleaseMemObject(a);
    clReleaseMemObject(big);
    close(&c);
}

Test(arguments, access_flags) {
    struct call c;
    cl_int err;

    open(&c, plain);
    clattn_forward_tensors t = c.tensors;
    t.o.buffer = clCreateBuffer(c.f.opencl, CL_MEM_READ_ONLY, 256, NULL, &err);
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "READ_ONLY");
    clReleaseMemObject(t.o.buffer);
    t = c.tensors;
    t.k.buffer = clCreateBuffer(c.f.opencl, CL_MEM_WRITE_ONLY, 256, NULL, &err);
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "WRITE_ONLY");
    clReleaseMemObject(t.k.buffer);
    close(&c);
}

/* A queue, a buffer and an event of another OpenCL context. */
Test(arguments, foreign_objects) {
    struct call c;
    cl_int err;

    open(&c, plain);
    cl_context other = clCreateContext(NULL, 1, &c.f.device, NULL, NULL, &err);
    cr_assert(err == CL_SUCCESS);
    cl_command_queue queue = clCreateCommandQueue(other, c.f.device, 0, &err);
    refused_with(&c, &c.tensors, queue, CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    clReleaseCommandQueue(queue);
    clattn_forward_tensors t = c.tensors;
    t.v.buffer = clCreateBuffer(other, CL_MEM_READ_WRITE, 256, NULL, &err);
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    clReleaseMemObject(t.v.buffer);
    cl_event event = clCreateUserEvent(other, &err);
    fixture_refused(&c.f, clattn_attention_forward(c.plan, c.f.queue, &c.tensors, 1, &event, NULL),
                    CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    cr_expect(faults_commands() == c.commands);
    clSetUserEventStatus(event,
                         CL_COMPLETE); /* some drivers keep a context until its events have come */
    clReleaseEvent(event);
    clReleaseContext(other);
    close(&c);
}

Test(arguments, wait_lists) {
    struct call c;
    cl_event done = NULL, events[2] = {NULL, NULL};
    cl_int err;

    open(&c, plain);
    events[0] = clCreateUserEvent(c.f.opencl, &err);
    fixture_refused(&c.f, clattn_attention_forward(c.plan, c.f.queue, &c.tensors, 1, NULL, &done),
                    CLATTN_INVALID_ARGUMENT, "wait");
    fixture_refused(&c.f, clattn_attention_forward(c.plan, c.f.queue, &c.tensors, 0, events, &done),
                    CLATTN_INVALID_ARGUMENT, "wait");
    fixture_refused(&c.f, clattn_attention_forward(c.plan, c.f.queue, &c.tensors, 2, events, &done),
                    CLATTN_INVALID_ARGUMENT, "wait[1]");
    clSetUserEventStatus(events[0], -5);
    fixture_refused(&c.f, clattn_attention_forward(c.plan, c.f.queue, &c.tensors, 1, events, &done),
                    CLATTN_INVALID_ARGUMENT, "failed with -5");
    cr_expect(done == NULL && faults_commands() == c.commands);
    clReleaseEvent(events[0]);
    close(&c);
}
