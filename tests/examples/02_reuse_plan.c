/* SPDX-License-Identifier: Apache-2.0 */
/* 02: device buffers, and a plan that is made once and executed often.
 *
 * Making a plan chooses kernels and compiles them; executing it only enqueues. Here the output of
 * each step is the queries of the next, and events say what waits for what. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 2, SEQ = 32, DIM = 16, COUNT = HEADS * SEQ * DIM, STEPS = 3 };

/* Errors come as a status for the program and as a sentence for a person. */
static void print_message(clattn_log_level level, const char *message, void *user_data)
{
    (void)user_data;
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn: %s\n", message);
}

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

/* OpenCL's own calls have a number only. */
static void check_opencl(cl_int err, const char *call)
{
    if (err != CL_SUCCESS) {
        fprintf(stderr, "%s failed with OpenCL's error %d\n", call, (int)err);
        exit(1);
    }
}

int main(void)
{
    const clattn_context_options options = {.struct_size = sizeof options, .log = print_message};
    clattn_context *context;
    clattn_plan *plan;
    clattn_problem problem;
    cl_int err;

    /* A program that has an OpenCL context already passes it to clattn_context_create(). */
    check(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS, "context");
    cl_context opencl = clattn_context_opencl(context);
    cl_device_id device = clattn_context_device(context)->device;
    cl_command_queue queue =
        clCreateCommandQueue(opencl, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    check_opencl(err, "clCreateCommandQueue");

    /* A problem has a text form, the same in programs, logs and on command lines. */
    check(clattn_problem_parse("fwd f32 h2 q32 d16", &problem, NULL, 0) == CLATTN_SUCCESS, "parse");
    check(clattn_plan_create(context, &problem, NULL, &plan) == CLATTN_SUCCESS, "plan");
    clattn_plan_info info = {.struct_size = sizeof info};
    check(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS, "describe");
    printf("%s: %s %s\n", info.problem, info.family, info.tunables);

    /* All values are the same constant, so whatever the weights are, every output is that too. */
    float host[COUNT];
    cl_mem buffer[4]; /* k, v, and the queries and outputs taking turns */
    for (int n = 0; n < COUNT; n++)
        host[n] = 0.25f;
    for (int n = 0; n < 4; n++) {
        buffer[n] = clCreateBuffer(opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof host,
                                   host, &err);
        check_opencl(err, "clCreateBuffer");
    }
    /* One workspace serves all steps, because each waits for the one before. */
    cl_mem workspace = NULL;
    if (info.workspace_bytes > 0) {
        workspace = clCreateBuffer(opencl, CL_MEM_READ_WRITE, info.workspace_bytes, NULL, &err);
        check_opencl(err, "clCreateBuffer");
    }

    cl_event done[STEPS];
    for (int step = 0; step < STEPS; step++) {
        const clattn_forward_tensors tensors = {
            .struct_size = sizeof tensors,
            .q = {.buffer = buffer[2 + step % 2]},
            .k = {.buffer = buffer[0]},
            .v = {.buffer = buffer[1]},
            .o = {.buffer = buffer[3 - step % 2]},
            .workspace = {.buffer = workspace},
        };
        check(clattn_attention_forward(plan, queue, &tensors, step > 0 ? 1 : 0,
                                       step > 0 ? &done[step - 1] : NULL,
                                       &done[step]) == CLATTN_SUCCESS,
              "forward");
    }
    err = clEnqueueReadBuffer(queue, buffer[3 - (STEPS - 1) % 2], CL_TRUE, 0, sizeof host, host, 1,
                              &done[STEPS - 1], NULL);
    check_opencl(err, "clEnqueueReadBuffer");
    for (int n = 0; n < COUNT; n++)
        check(fabsf(host[n] - 0.25f) < 1e-6f, "comparison");

    /* A second plan for the same problem compiles nothing. */
    const size_t builds = clattn_context_builds(context);
    clattn_plan *again;
    check(clattn_plan_create(context, &problem, NULL, &again) == CLATTN_SUCCESS, "second plan");
    check(clattn_context_builds(context) == builds, "reuse of programs");
    printf("%d steps, %zu programs compiled\n", STEPS, builds);

    for (int step = 0; step < STEPS; step++)
        clReleaseEvent(done[step]);
    for (int n = 0; n < 4; n++)
        clReleaseMemObject(buffer[n]);
    if (workspace != NULL)
        clReleaseMemObject(workspace);
    clReleaseCommandQueue(queue);
    clattn_plan_release(again);
    clattn_plan_release(plan);
    clattn_context_release(context);
    return 0;
}
