/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/rates/measure.h"
#include "mpi/options.h"

#include <math.h>
#include <stdlib.h>

/* ---- this rank's device: short executions of attention as the whole has it ---------------------- */

/* Queries and keys of the shortest execution, and of the longest; the seconds that are enough to tell a rate. */
enum { FEWEST_ROWS = 64, MOST_ROWS = 8192, REPEATS = 3 };
#define ENOUGH_SECONDS 0.02
/* A speed is a mean over that many seconds, during which a shared processor changes between
 * processes. */
#define SPEED_SECONDS 0.3

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

/* A problem with `rows` queries and keys, without options that read further tensors. */
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

static void execute_once(struct trial *trial, const clattn_plan *plan)
{
    const clattn_buffer in = {.buffer = trial->in}, space = {.buffer = trial->workspace};
    const clattn_buffer out[4] = {{.buffer = trial->out[0]},
                                  {.buffer = trial->out[1]},
                                  {.buffer = trial->out[2]},
                                  {.buffer = trial->out[3]}};
    const clattn_forward_tensors forward = {.struct_size = sizeof forward,
                                            .q = in,
                                            .k = in,
                                            .v = in,
                                            .o = out[0],
                                            .lse = out[3],
                                            .workspace = space};
    const clattn_backward_tensors backward = {.struct_size = sizeof backward,
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

    fault_call(trial->fault,
               trial->p.operation == CLATTN_FORWARD
                   ? clattn_attention_forward(plan, trial->queue, &forward, 0, NULL, NULL)
                   : clattn_attention_backward(plan, trial->queue, &backward, 0, NULL, NULL),
               "an execution that measures the device");
    fault_cl(trial->fault, clFinish(trial->queue), "clFinish");
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

/* Makes the plan of an execution of so many rows, and its tensors; NULL with a fault. */
static clattn_plan *open_rows(struct trial *trial, const clattn_problem *whole, const size_t rows)
{
    const size_t dim = whole->dim_qk > whole->dim_v ? whole->dim_qk : whole->dim_v;
    const size_t bytes = whole->heads * rows * dim * sizeof(float);
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan = NULL;

    trial->p = trial_problem(whole, rows);
    if (!fault_call(trial->fault,
                    clattn_plan_create(trial->context, &trial->p, trial->options, &plan),
                    "a plan that measures the device"))
        return NULL;
    (void)clattn_plan_describe(plan, &info);
    trial->in = new_buffer(trial, bytes);
    for (int n = 0; n < 4; n++)
        trial->out[n] = new_buffer(trial, bytes);
    trial->workspace = info.workspace_bytes ? new_buffer(trial, info.workspace_bytes) : NULL;
    return plan;
}

static void close_rows(struct trial *trial, clattn_plan *plan)
{
    release_buffers(trial);
    clattn_plan_release(plan);
}

/* The shortest of some executions; the first one, which may compile, does not count. */
static double seconds_of_rows(struct trial *trial, const clattn_problem *whole, const size_t rows)
{
    clattn_plan *plan = open_rows(trial, whole, rows);
    double least = HUGE_VAL;

    for (int n = 0; n <= REPEATS && fault_none(trial->fault); n++) {
        const double begun = MPI_Wtime();
        execute_once(trial, plan);
        const double seconds = MPI_Wtime() - begun;
        least = n > 0 && seconds < least ? seconds : least;
    }
    close_rows(trial, plan);
    return fault_none(trial->fault) ? least : 1;
}

/* The fewest rows whose execution takes long enough to measure a rate, and its seconds. */
static size_t rows_that_tell(struct trial *trial, const clattn_problem *whole, double *seconds)
{
    size_t rows = 2 * FEWEST_ROWS;

    do {
        rows *= 2;
        *seconds = seconds_of_rows(trial, whole, rows);
    } while (2 * rows <= MOST_ROWS && *seconds < ENOUGH_SECONDS && fault_none(trial->fault));
    return rows;
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

/* Makes a queue for measurements. Returns false if there is a fault already, or if it sets one. */
static bool open_trial(struct trial *trial)
{
    cl_context opencl = fault_none(trial->fault) ? clattn_context_opencl(trial->context) : NULL;
    cl_int error;

    if (!opencl) {
        fault_set(trial->fault, CLATTN_NO_DEVICE, "its context has no device, only a profile");
        return false;
    }
    trial->queue =
        clCreateCommandQueue(opencl, clattn_context_device(trial->context)->device, 0, &error);
    return fault_cl(trial->fault, error, "clCreateCommandQueue");
}

static void close_trial(struct trial *trial)
{
    if (trial->queue)
        clReleaseCommandQueue(trial->queue);
}

/* Measures how fast this rank's device computes and copies. */
static void device_rates(struct trial *trial, const clattn_problem *whole, clattn_mpi_rates *rates)
{
    double seconds;

    rates->overhead = seconds_of_rows(trial, whole, FEWEST_ROWS);
    (void)rows_that_tell(trial, whole, &seconds);
    rates->flops = clattn_problem_flops(&trial->p) / seconds;
    /* The time of the shortest execution also contains its operations, which are no overhead. */
    const clattn_problem shortest = trial_problem(whole, FEWEST_ROWS);
    rates->overhead = fmax(0.0, rates->overhead - clattn_problem_flops(&shortest) / rates->flops);
    rates->copy_bandwidth = copy_bandwidth(trial);
}

/* Operations a second, the mean over executions of so many rows; 0 with a fault. */
static double device_speed(struct trial *trial, const clattn_problem *whole, const size_t rows)
{
    double count = 0, seconds = 0;
    clattn_plan *plan = open_rows(trial, whole, rows);

    if (fault_none(trial->fault))
        /* the first execution may still prepare something, and is not timed */
        execute_once(trial, plan);
    const double begun = MPI_Wtime();
    while (seconds < SPEED_SECONDS && fault_none(trial->fault)) {
        execute_once(trial, plan);
        count++;
        seconds = MPI_Wtime() - begun;
    }
    close_rows(trial, plan);
    return fault_none(trial->fault) ? count * clattn_problem_flops(&trial->p) / seconds : 0;
}

/* ---- the network -------------------------------------------------------------------------------- */

enum { SMALL = 8, LARGE = 2 << 20, TURNS = 5, TAG_MEASURE = 4 };

/* Seconds in which every rank sends so many bytes to the one that is `stride` further on: of the slowest rank, the
 * best of some turns. Collective. */
static double shift_time(MPI_Comm communicator, const int stride, const int bytes,
                         unsigned char *memory)
{
    double best = HUGE_VAL, slowest;
    int rank, ranks;

    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    for (int n = 0; n < TURNS; n++) {
        MPI_Barrier(communicator);
        const double begun = MPI_Wtime();
        MPI_Sendrecv(memory, bytes, MPI_BYTE, (rank + stride) % ranks, TAG_MEASURE, memory + LARGE,
                     bytes, MPI_BYTE, (rank - stride + ranks) % ranks, TAG_MEASURE, communicator,
                     MPI_STATUS_IGNORE);
        best = fmin(best, MPI_Wtime() - begun);
    }
    MPI_Allreduce(&best, &slowest, 1, MPI_DOUBLE, MPI_MAX, communicator);
    return slowest;
}

static void measure_shift(MPI_Comm communicator, const int stride, unsigned char *memory,
                          double *latency, double *bandwidth)
{
    const double least = 1e-9; /* a clock may not see the difference */
    const double large = shift_time(communicator, stride, LARGE, memory);

    *latency = shift_time(communicator, stride, SMALL, memory);
    *bandwidth = LARGE / fmax(large - *latency, least);
}

static void measure_network(MPI_Comm communicator, unsigned char *memory, clattn_mpi_rates *rates)
{
    MPI_Comm node;
    int ranks, mine;

    MPI_Comm_size(communicator, &ranks);
    MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &mine);
    MPI_Allreduce(&mine, &rates->node_ranks, 1, MPI_INT, MPI_MIN, communicator);
    measure_shift(node, 1, memory, &rates->node_latency, &rates->node_bandwidth);
    rates->latency = rates->node_latency;
    rates->bandwidth = rates->node_bandwidth;
    if (ranks > rates->node_ranks) {
        measure_shift(communicator, rates->node_ranks, memory, &rates->latency, &rates->bandwidth);
        rates->bandwidth *= rates->node_ranks;
    }
    MPI_Comm_free(&node);
}

clattn_status measure_rates(MPI_Comm communicator, clattn_context *context,
                            const clattn_problem *whole, const clattn_plan_options *options,
                            const double share, clattn_mpi_rates *rates)
{
    struct fault fault = {.status = CLATTN_SUCCESS};
    unsigned char *memory = calloc(2, LARGE);
    clattn_mpi_rates mine = {.struct_size = sizeof mine};
    struct trial trial = {.context = context, .options = options, .fault = &fault};

    *rates = (clattn_mpi_rates){.struct_size = 0};
    if (!memory)
        fault_set(&fault, CLATTN_OUT_OF_MEMORY, "no host memory to measure the network with");
    const bool open = open_trial(&trial);
    /* The first time kernels are compiled. Devices that share a machine are measured at the same time. */
    for (int n = 0; n < 2; n++) {
        if (open && fault_none(&fault))
            device_rates(&trial, whole, &mine);
        MPI_Barrier(communicator);
    }
    close_trial(&trial);
    const clattn_status status = fault_agree(communicator, context, &fault);
    if (status == CLATTN_SUCCESS) {
        measure_network(communicator, memory, &mine);
        /* The minimum over ranks: of rates that of the slowest rank, of negated durations the longest. */
        double least[] = {mine.flops / share, mine.copy_bandwidth, mine.node_bandwidth,
                          mine.bandwidth,     -mine.overhead,      -mine.node_latency,
                          -mine.latency};
        MPI_Allreduce(MPI_IN_PLACE, least, sizeof least / sizeof *least, MPI_DOUBLE, MPI_MIN,
                      communicator);
        *rates = (clattn_mpi_rates){.struct_size = sizeof *rates,
                                    .flops = least[0],
                                    .copy_bandwidth = least[1],
                                    .node_bandwidth = least[2],
                                    .bandwidth = least[3],
                                    .overhead = -least[4],
                                    .node_latency = -least[5],
                                    .latency = -least[6],
                                    .node_ranks = mine.node_ranks};
    }
    free(memory);
    return status;
}

clattn_status clattn_mpi_measure(MPI_Comm communicator, clattn_context *context,
                                 const clattn_problem *whole, clattn_mpi_rates *rates)
{
    const clattn_mpi_options options = {.struct_size = sizeof options};
    struct fault fault = {.status = CLATTN_SUCCESS};
    clattn_mpi_rates found = {.struct_size = sizeof found};
    char why[CA_REASON_BYTES];
    int ranks;

    if (!CA_FILLABLE(clattn_mpi_rates, "rates", rates, why))
        return CLATTN_INVALID_ARGUMENT;
    ca_struct_fill(rates, &found, sizeof found);
    if (communicator == MPI_COMM_NULL || !context || !whole)
        return CLATTN_INVALID_ARGUMENT;
    MPI_Comm_size(communicator, &ranks);
    options_check(whole, ranks, &options, &fault);
    clattn_status status = fault_agree(communicator, context, &fault);
    if (status == CLATTN_SUCCESS)
        status = measure_rates(communicator, context, whole, NULL, 1.0, &found);
    if (status == CLATTN_SUCCESS)
        ca_struct_fill(rates, &found, sizeof found);
    return status;
}

clattn_status clattn_mpi_measure_speed(MPI_Comm communicator, clattn_context *context,
                                       const clattn_problem *whole,
                                       const clattn_plan_options *plan_options, double *speed)
{
    const clattn_mpi_options options = {.struct_size = sizeof options};
    struct fault fault = {.status = CLATTN_SUCCESS};
    struct trial trial = {.context = context, .options = plan_options, .fault = &fault};
    double seconds, mine = 0;
    size_t rows = 0;
    int ranks;

    if (speed)
        *speed = 0;
    if (communicator == MPI_COMM_NULL)
        return CLATTN_INVALID_ARGUMENT; /* there are no ranks to agree with */
    MPI_Comm_size(communicator, &ranks);
    if (!context || !whole || !speed)
        fault_set(&fault, CLATTN_INVALID_ARGUMENT,
                  "clattn_mpi_measure_speed: context, problem and speed must not be null");
    else
        options_check(whole, ranks, &options, &fault);
    if (open_trial(&trial))
        rows = rows_that_tell(&trial, whole, &seconds);
    clattn_status status = fault_agree(communicator, context, &fault);
    if (status == CLATTN_SUCCESS) { /* all at once: devices may share a machine */
        mine = device_speed(&trial, whole, rows);
        status = fault_agree(communicator, context, &fault);
    }
    close_trial(&trial);
    if (speed && status == CLATTN_SUCCESS)
        *speed = mine;
    return status;
}
