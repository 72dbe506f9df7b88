/* SPDX-License-Identifier: Apache-2.0 */
/* overhead KEYS...: the time of a call of the backend beyond clattn's own. One token's attention
 * (8 heads over 2, KEYS keys of f16, dim 64) is computed through ggml, and by a plan on buffers
 * that stay. They take turns with a kernel that does nothing and takes as many arguments. Then
 * the plan runs with many executions enqueued before a wait, which gives the time of its
 * kernels. ggml's CPU backend comes last, since its threads spin for milliseconds after each
 * graph and take a core meanwhile. Prints the medians in microseconds. */
#include "model.h"

#include <clattn/clattn.h>
#include <ggml-cpu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADS 8
#define KV_HEADS 2
#define DIM 64
#define ROUNDS 1001
#define ARGUMENTS 9
#define TOGETHER 50

enum way { THROUGH_GGML, PLAN, NOTHING, IN_TURNS, ENQUEUED = IN_TURNS, CPU, WAYS };

struct direct {
    clattn_context *context;
    clattn_plan *plan;
    cl_command_queue queue;
    clattn_forward_tensors tensors;
    cl_kernel nothing;
};

static struct ggml_cgraph *make_graph(struct ggml_context *context, int keys)
{
    struct ggml_tensor *q = ggml_new_tensor_3d(context, GGML_TYPE_F32, DIM, 1, HEADS);
    struct ggml_tensor *k = ggml_new_tensor_3d(context, GGML_TYPE_F16, DIM, keys, KV_HEADS);
    struct ggml_tensor *v = ggml_new_tensor_3d(context, GGML_TYPE_F16, DIM, keys, KV_HEADS);
    struct ggml_tensor *mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, keys, 1);
    struct ggml_cgraph *graph = ggml_new_graph(context);

    memset(q->data, 0, ggml_nbytes(q));
    memset(k->data, 0, ggml_nbytes(k));
    memset(v->data, 0, ggml_nbytes(v));
    memset(mask->data, 0, ggml_nbytes(mask));
    ggml_build_forward_expand(graph,
                              ggml_flash_attn_ext(context, q, k, v, mask, 0.125f, 0.0f, 0.0f));
    return graph;
}

static cl_mem borrow(cl_context opencl, struct ggml_tensor *tensor)
{
    cl_int error = CL_SUCCESS;
    cl_mem memory = clCreateBuffer(opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                   ggml_nbytes(tensor), tensor->data, &error);

    expect(error == CL_SUCCESS, "no buffer");
    return memory;
}

static void open_direct(struct direct *d, struct ggml_cgraph *graph, cl_int keys)
{
    const char *text =
        "fwd f32 h8/2 q1 k1024 d64 kcache=f16 vcache=f16 scale=0.125 bias=f16:k klen";
    cl_int error = CL_SUCCESS;
    clattn_problem problem;

    expect(clattn_context_create_default(NULL, NULL, &d->context) == CLATTN_SUCCESS,
           "no OpenCL device");
    cl_context opencl = clattn_context_opencl(d->context);
    expect(clattn_problem_parse(text, &problem, NULL, 0) == CLATTN_SUCCESS, "no problem");
    problem.seq_kv = (size_t)keys;
    expect(clattn_plan_create(d->context, &problem, NULL, &d->plan) == CLATTN_SUCCESS, "no plan");
    d->queue = clCreateCommandQueue(opencl, clattn_context_device(d->context)->device, 0, &error);
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan_describe(d->plan, &info);
    /* The same memory as the graph's. */
    struct ggml_tensor *o = ggml_graph_node(graph, -1);
    d->tensors.q.buffer = borrow(opencl, o->src[0]);
    d->tensors.k.buffer = borrow(opencl, o->src[1]);
    d->tensors.v.buffer = borrow(opencl, o->src[2]);
    d->tensors.bias.buffer = borrow(opencl, o->src[3]);
    d->tensors.o.buffer = borrow(opencl, o);
    d->tensors.kv_lengths.buffer =
        clCreateBuffer(opencl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof keys, &keys, &error);
    if (info.workspace_bytes > 0)
        d->tensors.workspace.buffer =
            clCreateBuffer(opencl, CL_MEM_READ_WRITE, info.workspace_bytes, NULL, &error);
    d->tensors.struct_size = sizeof d->tensors;
}

/* The kernel takes what the plan's takes: two structs, here buffers, and a pointer for each tensor. */
static void open_nothing(struct direct *d)
{
    const char *source =
        "__kernel void nothing(__global float *a, __global float *b, __global float *c,"
        " __global float *d, __global float *e, __global float *f, __global float *g,"
        " __global float *h, __global float *i) { }";
    cl_device_id device = clattn_context_device(d->context)->device;
    cl_int error = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithSource(clattn_context_opencl(d->context), 1, &source, NULL, &error);

    expect(error == CL_SUCCESS &&
               clBuildProgram(program, 1, &device, NULL, NULL, NULL) == CL_SUCCESS,
           "the empty kernel does not build");
    d->nothing = clCreateKernel(program, "nothing", &error);
    expect(error == CL_SUCCESS, "no empty kernel");
}

static void execute_nothing(const struct direct *d)
{
    const size_t groups = 2;
    cl_int error = CL_SUCCESS;

    for (cl_uint n = 0; n < ARGUMENTS; n++)
        error |= clSetKernelArg(d->nothing, n, sizeof(cl_mem), &d->tensors.q.buffer);
    expect(error == CL_SUCCESS &&
               clEnqueueNDRangeKernel(d->queue, d->nothing, 1, NULL, &groups, NULL, 0, NULL,
                                      NULL) == CL_SUCCESS &&
               clFinish(d->queue) == CL_SUCCESS,
           "the empty kernel fails");
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void execute(const struct direct *d, int times)
{
    for (int n = 0; n < times; n++)
        expect(clattn_attention_forward(d->plan, d->queue, &d->tensors, 0, NULL, NULL) ==
                   CLATTN_SUCCESS,
               "an execution fails");
    expect(clFinish(d->queue) == CL_SUCCESS, "the executions fail");
}

static void compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    expect(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "a graph fails");
}

/* Ways that take turns are each first as often as the others. */
static void measure(int keys, ggml_backend_t clattn, ggml_backend_t cpu)
{
    static double time[WAYS][ROUNDS];
    struct ggml_context *context =
        ggml_init((struct ggml_init_params){.mem_size = (size_t)64 << 20});
    struct ggml_cgraph *graph = make_graph(context, keys);
    struct direct direct = {.context = NULL};

    open_direct(&direct, graph, keys);
    open_nothing(&direct);
    for (int n = 0; n < ROUNDS; n++)
        for (int turn = 0; turn < IN_TURNS; turn++) {
            const int way = (n + turn) % IN_TURNS;
            const double before = milliseconds();
            if (way == PLAN)
                execute(&direct, 1);
            else if (way == NOTHING)
                execute_nothing(&direct);
            else
                compute(clattn, graph);
            time[way][n] = (milliseconds() - before) * 1e3;
        }
    for (int n = 0; n < ROUNDS; n++) {
        const double before = milliseconds();
        execute(&direct, TOGETHER);
        time[ENQUEUED][n] = (milliseconds() - before) * 1e3 / TOGETHER;
    }
    for (int n = 0; n < ROUNDS; n++) {
        const double before = milliseconds();
        compute(cpu, graph);
        time[CPU][n] = (milliseconds() - before) * 1e3;
    }
    for (int way = 0; way < WAYS; way++)
        qsort(time[way], ROUNDS, sizeof **time, ascending);
    printf("keys %d backend_us %.1f plan_us %.1f kernels_us %.1f nothing_us %.1f cpu_us %.1f\n",
           keys, time[THROUGH_GGML][ROUNDS / 2], time[PLAN][ROUNDS / 2], time[ENQUEUED][ROUNDS / 2],
           time[NOTHING][ROUNDS / 2], time[CPU][ROUNDS / 2]);
    clattn_plan_release(direct.plan);
    clattn_context_release(direct.context);
    ggml_free(context);
}

int main(int count, char **arguments)
{
    backends_load();
    ggml_backend_t clattn = ggml_backend_init_by_name("CLATTN", NULL);
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    expect(clattn != NULL && cpu != NULL, "the backend is not loaded");
    ggml_backend_cpu_set_n_threads(cpu, 2);
    for (int n = 1; n < count; n++)
        measure(number(arguments[n]), clattn, cpu);
    ggml_backend_free(clattn);
    ggml_backend_free(cpu);
    return 0;
}
