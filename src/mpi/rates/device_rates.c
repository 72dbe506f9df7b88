/* How fast this rank's device computes and copies: short executions of attention as the whole has it. */
#include "mpi/device.h"

#include <math.h>
#include <stdlib.h>

/* Queries and keys of the shortest execution, and of the longest; the seconds that are enough to tell a rate. */
enum { FEWEST_ROWS = 64, MOST_ROWS = 8192, REPEATS = 3 };
#define ENOUGH_SECONDS 0.02

struct trial {
    clattn_context *context;
    cl_command_queue queue;
    const clattn_plan_options *options;
    struct fault *fault;
    clattn_problem p;
    cl_mem in, out[4], workspace; /* o, dq, dk, dv in f32 at most; lse */
};

static cl_mem new_buffer(struct trial *trial, const size_t bytes)
{
    const cl_float zero = 0;
    cl_int error;
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(trial->context), CL_MEM_READ_WRITE,
                                   (bytes ? bytes + 3 : 4) / 4 * 4, NULL, &error);

    if (!fault_cl(trial->fault, error, "clCreateBuffer"))
        return NULL;
    fault_cl(trial->fault,
             clEnqueueFillBuffer(trial->queue, buffer, &zero, sizeof zero, 0,
                                 (bytes ? bytes + 3 : 4) / 4 * 4, 0, NULL, NULL),
             "clEnqueueFillBuffer");
    return buffer;
}

/* Attention of so many queries and keys, without what reads further tensors. */
static clattn_problem trial_problem(const clattn_problem *whole, const size_t rows)
{
    clattn_problem p;

    clattn_problem_init(&p);
    p.operation = whole->operation;
    p.dtype = whole->dtype;
    p.batch = 1;
    p.heads = whole->heads;
    p.kv_heads = whole->kv_heads;
    p.seq_q = p.seq_kv = rows;
    p.dim_qk = whole->dim_qk;
    p.dim_v = whole->dim_v;
    p.strict = whole->strict;
    p.lse = 1;
    return p;
}

static double execute_once(struct trial *trial, const clattn_plan *plan)
{
    const clattn_buffer in = {.buffer = trial->in}, space = {.buffer = trial->workspace};
    const clattn_buffer out[4] = {{.buffer = trial->out[0]},
                                  {.buffer = trial->out[1]},
                                  {.buffer = trial->out[2]},
                                  {.buffer = trial->out[3]}};
    const clattn_forward forward = {.struct_size = sizeof forward,
                                    .q = in,
                                    .k = in,
                                    .v = in,
                                    .o = out[0],
                                    .lse = out[3],
                                    .workspace = space};
    const clattn_backward backward = {.struct_size = sizeof backward,
                                      .q = in,
                                      .k = in,
                                      .v = in,
                                      .o = in,
                                      .d_o = in,
                                      .lse = out[3],
                                      .dq = out[0],
                                      .dk = out[1],
                                      .dv = out[2],
                                      .workspace = space};
    const double begun = MPI_Wtime();

    fault_call(trial->fault,
               trial->p.operation == CLATTN_FORWARD
                   ? clattn_attention_forward(plan, trial->queue, &forward, 0, NULL, NULL)
                   : clattn_attention_backward(plan, trial->queue, &backward, 0, NULL, NULL),
               "an execution that measures the device");
    fault_cl(trial->fault, clFinish(trial->queue), "clFinish");
    return MPI_Wtime() - begun;
}

static void release_buffers(struct trial *trial)
{
    cl_mem *const all[] = {&trial->in,     &trial->out[0], &trial->out[1],
                           &trial->out[2], &trial->out[3], &trial->workspace};

    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        if (*all[n])
            clReleaseMemObject(*all[n]);
        *all[n] = NULL;
    }
}

/* The shortest of some executions; the first one, which may compile, does not count. */
static double seconds_of_rows(struct trial *trial, const clattn_problem *whole, const size_t rows)
{
    const size_t dim = whole->dim_qk > whole->dim_v ? whole->dim_qk : whole->dim_v;
    const size_t bytes = whole->heads * rows * dim * sizeof(float);
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan = NULL;
    double least = HUGE_VAL;

    trial->p = trial_problem(whole, rows);
    if (!fault_call(trial->fault,
                    clattn_plan_create(trial->context, &trial->p, trial->options, &plan),
                    "a plan that measures the device"))
        return 1;
    (void)clattn_plan_describe(plan, &info);
    trial->in = new_buffer(trial, bytes);
    for (int n = 0; n < 4; n++)
        trial->out[n] = new_buffer(trial, bytes);
    trial->workspace = info.workspace_bytes ? new_buffer(trial, info.workspace_bytes) : NULL;
    for (int n = 0; n <= REPEATS && fault_none(trial->fault); n++) {
        const double seconds = execute_once(trial, plan);
        least = n > 0 && seconds < least ? seconds : least;
    }
    release_buffers(trial);
    clattn_plan_release(plan);
    return fault_none(trial->fault) ? least : 1;
}

static double copy_bandwidth(struct trial *trial)
{
    const size_t bytes = (size_t)4 << 20;
    void *host = calloc(bytes, 1);
    double least = HUGE_VAL;

    if (!host)
        fault_set(trial->fault, CLATTN_OUT_OF_MEMORY, "no host memory for %zu bytes", bytes);
    trial->in = fault_none(trial->fault) ? new_buffer(trial, bytes) : NULL;
    for (int n = 0; n < REPEATS && fault_none(trial->fault); n++) {
        const double begun = MPI_Wtime();
        fault_cl(
            trial->fault,
            clEnqueueReadBuffer(trial->queue, trial->in, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
            "clEnqueueReadBuffer");
        fault_cl(
            trial->fault,
            clEnqueueWriteBuffer(trial->queue, trial->in, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
            "clEnqueueWriteBuffer");
        least = fmin(least, MPI_Wtime() - begun);
    }
    release_buffers(trial);
    free(host);
    return fault_none(trial->fault) ? 2 * (double)bytes / least : 1;
}

void device_rates(clattn_context *context, const clattn_problem *whole,
                  const clattn_plan_options *options, struct fault *fault, clattn_mpi_rates *rates)
{
    struct trial trial = {.context = context, .options = options, .fault = fault};
    cl_int error;

    if (!clattn_context_opencl(context)) {
        fault_set(fault, CLATTN_NO_DEVICE, "its context has no device, only a profile");
        return;
    }
    trial.queue = clCreateCommandQueue(clattn_context_opencl(context),
                                       clattn_context_device(context)->device, 0, &error);
    if (!fault_cl(fault, error, "clCreateCommandQueue"))
        return;
    rates->overhead = seconds_of_rows(&trial, whole, FEWEST_ROWS);
    double seconds = 0;
    for (size_t rows = 4 * FEWEST_ROWS;
         rows <= MOST_ROWS && seconds < ENOUGH_SECONDS && fault_none(fault); rows *= 2) {
        seconds = seconds_of_rows(&trial, whole, rows);
        rates->flops = clattn_problem_flops(&trial.p) / seconds;
    }
    /* The shortest execution has operations as well. */
    const clattn_problem shortest = trial_problem(whole, FEWEST_ROWS);
    rates->overhead = fmax(0.0, rates->overhead - clattn_problem_flops(&shortest) / rates->flops);
    rates->copy_bandwidth = copy_bandwidth(&trial);
    clReleaseCommandQueue(trial.queue);
}
