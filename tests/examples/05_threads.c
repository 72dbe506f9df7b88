/* SPDX-License-Identifier: Apache-2.0 */
/* 05: one plan, four threads. A plan is immutable: each thread brings its queue and its buffers
 * (the workspace too), and no thread waits for another. */
#include "example.h"
#include <math.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 10, SEQ = 40, DIM = 16, COUNT = SEQ * DIM };

struct worker {
    clattn_context *context;
    const clattn_plan *plan;
    size_t workspace_bytes;
    float value;        /* all of this thread's values, and so all of its outputs */
    const char *failed; /* NULL, or what went wrong */
};

static cl_mem fill_buffer(cl_context opencl, size_t bytes, float value)
{
    float *host = malloc(bytes);
    cl_mem buffer;

    if (host == NULL)
        return NULL;
    for (size_t n = 0; n < bytes / sizeof(float); n++)
        host[n] = value;
    buffer = clCreateBuffer(opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, host, NULL);
    free(host);
    return buffer;
}

/* Executes the plan on the thread's own queue; NULL, or what it could not do. */
static const char *execute(const struct worker *w, cl_command_queue queue,
                           const clattn_forward_tensors *tensors)
{
    float o[COUNT];

    if (clattn_attention_forward(w->plan, queue, tensors, 0, NULL, NULL) != CLATTN_SUCCESS)
        return "could not execute the plan";
    if (clEnqueueReadBuffer(queue, tensors->o.buffer, CL_TRUE, 0, sizeof o, o, 0, NULL, NULL) !=
        CL_SUCCESS)
        return "could not read its outputs";
    for (int n = 0; n < COUNT; n++)
        if (!(fabsf(o[n] - w->value) < 1e-5f))
            return "has a wrong output";
    return NULL;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    cl_context opencl = clattn_context_opencl(w->context);
    cl_command_queue queue =
        clCreateCommandQueue(opencl, clattn_context_device(w->context)->device, 0, NULL);
    const size_t bytes = COUNT * sizeof(float);
    clattn_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = {.buffer = fill_buffer(opencl, bytes, 0.5f)},
        .k = {.buffer = fill_buffer(opencl, bytes, 0.1f)},
        .v = {.buffer = fill_buffer(opencl, bytes, w->value)},
        .o = {.buffer = fill_buffer(opencl, bytes, 0)},
    };
    if (w->workspace_bytes > 0)
        tensors.workspace.buffer = fill_buffer(opencl, w->workspace_bytes, 0);

    for (int round = 0; round < ROUNDS && w->failed == NULL; round++)
        w->failed = execute(w, queue, &tensors);

    const cl_mem buffers[] = {tensors.q.buffer, tensors.k.buffer, tensors.v.buffer,
                              tensors.o.buffer, tensors.workspace.buffer};
    for (size_t n = 0; n < sizeof buffers / sizeof *buffers; n++)
        if (buffers[n] != NULL)
            clReleaseMemObject(buffers[n]);
    if (queue != NULL)
        clReleaseCommandQueue(queue);
    return NULL;
}

int main(void)
{
    clattn_context *const context = open_context();
    clattn_plan *plan;
    clattn_plan_info info = {.struct_size = sizeof info};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    int failures = 0, started = 0;

    const clattn_problem problem = problem_of("fwd f32 q40 d16 causal=tl");
    check(clattn_plan_create(context, &problem, NULL, &plan) == CLATTN_SUCCESS, "plan");
    check(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS, "describe");
    for (; started < THREADS; started++) {
        workers[started] =
            (struct worker){context, plan, info.workspace_bytes, (float)(started + 1), NULL};
        if (pthread_create(&threads[started], NULL, work, &workers[started]) != 0)
            break;
    }
    for (int n = 0; n < started; n++) {
        pthread_join(threads[n], NULL);
        if (workers[n].failed != NULL)
            printf("thread %d %s\n", n, workers[n].failed);
        failures += workers[n].failed != NULL;
    }
    printf("%d of %d threads, %d rounds each\n", started - failures, THREADS, ROUNDS);
    clattn_plan_release(plan);
    clattn_context_release(context);
    return failures == 0 && started == THREADS ? 0 : 1;
}
