/* clattn-bench-mpi: what attention over ranks takes. See usage(). */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "bench/reference/row.h"
#include "bench/reference/values.h"

#include <clattn/clattn.h>
#include <clattn/mpi.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: mpirun -n N clattn-bench-mpi [OPTION]... PROBLEM...\n"
    "Times forward problems and gradients over N ranks, all modes in turns, "
    "and prints the median of the\n"
    "slowest rank's times, how rank 0 spent it, and what the cost model "
    "predicts from rates that are measured\n"
    "before each problem. Results of forward are compared with double "
    "precision, of some rows of each rank.\n"
    "  --mode M      all-gather, ring, heads, split-kv, heads-ring:N or auto; "
    "may be repeated; by default\n"
    "                the first three\n"
    "  --repeat N    times each, 7\n"
    "  --speed X     how fast this rank is; by default all are alike\n"
    "  --json FILE   rank 0 writes results there\n";

enum { MOST_MODES = 16, MOST_REPEATS = 1000, SAMPLED_ROWS = 4 };

struct mode {
    clattn_mpi_mode mode;
    int heads_ranks;
    const char *name;
};

struct bench {
    int rank, ranks, repeat;
    double speed;
    struct mode modes[MOST_MODES];
    size_t num_modes;
    const char *json;
    clattn_context *context;
    cl_command_queue queue;
    clattn_mpi_rates rates;
    json_t *rows;
};

/* A mode of one problem, while it is timed. */
struct run {
    const struct mode *mode;
    clattn_mpi_plan *plan;
    clattn_problem local;
    clattn_mpi_shard shard;
    cl_mem buffers[NUM_TENSORS];
    double milliseconds[MOST_REPEATS], parts[3][MOST_REPEATS];
    size_t times;
};

static void quit(const struct bench *bench, const char *sentence)
{
    fprintf(stderr, "clattn-bench-mpi, rank %d: %s\n", bench->rank, sentence);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void print_message(clattn_log_level level, const char *message, void *user_data)
{
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn-bench-mpi, rank %d: %s\n", *(const int *)user_data, message);
}

/* ---- tensors ------------------------------------------------------------------------------------ */

/* An element of an input: the same number on whichever rank it lies, between -1 and 1, by the finalizer of
 * splitmix64 (S. Vigna, 2015). */
static double element_of(const enum tensor_id id, const size_t n)
{
    uint64_t x = (uint64_t)n * 0x9e3779b97f4a7c15u + (uint64_t)id;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-52 - 1.0;
}

static size_t whole_row(const struct run *run, const bool of_keys, const size_t row)
{
    const size_t *first = of_keys ? run->shard.kv_first : run->shard.q_first;
    const size_t *count = of_keys ? run->shard.kv_count : run->shard.q_count;

    return row < count[0] ? first[0] + row : first[1] + row - count[0];
}

/* This rank's rows of a tensor of the whole: q, k, v, do, or what forward gives, which here is any. */
static void fill_tensor(const struct bench *bench, const clattn_problem *whole, struct run *run,
                        const enum tensor_id id)
{
    const struct tensor_shape s = tensor_shape_of(&run->local, id);
    const struct tensor_shape all = tensor_shape_of(whole, id);
    const bool of_keys = id == TENSOR_K || id == TENSOR_V;
    const bool cut = id == TENSOR_Q || id == TENSOR_DO || id == TENSOR_O || of_keys;
    const size_t bytes = s.extent * s.element_bytes;
    unsigned char *host = calloc(bytes ? bytes : 1, 1);
    cl_int error;

    if (!host)
        quit(bench, "no memory for a tensor");
    for (size_t n = 0; cut && n < tensor_count(&s); n++) {
        const size_t d = n % s.size[3], i = n / s.size[3] % s.size[2];
        const size_t h = n / s.size[3] / s.size[2] % s.size[1],
                     b = n / s.size[3] / s.size[2] / s.size[1];
        value_set(s.dtype, host, tensor_index(&s, b, h, i, d),
                  element_of(id, tensor_index(&all, b, h, whole_row(run, of_keys, i), d)));
    }
    /* Sums of exponentials of scores around 0: weights of about 1 / keys, and gradients that count. */
    for (size_t n = 0; id == TENSOR_LSE && n < s.extent; n++)
        value_set(s.dtype, host, n, log((double)whole->seq_kv));
    run->buffers[id] =
        clCreateBuffer(clattn_context_opencl(bench->context),
                       CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes ? bytes : 1, host, &error);
    free(host);
    if (error != CL_SUCCESS)
        quit(bench, "no device memory for a tensor");
}

static void open_run(const struct bench *bench, const clattn_problem *whole, struct run *run,
                     const struct mode *mode)
{
    const clattn_mpi_options options = {.struct_size = sizeof options,
                                        .mode = mode->mode,
                                        .heads_ranks = mode->heads_ranks,
                                        .rates = &bench->rates,
                                        .speed = bench->speed};

    memset(run, 0, sizeof *run);
    run->mode = mode;
    if (clattn_mpi_plan_create(MPI_COMM_WORLD, bench->context, whole, &options, &run->plan) !=
        CLATTN_SUCCESS)
        return;
    run->shard.struct_size = sizeof run->shard;
    (void)clattn_mpi_plan_shard(run->plan, bench->rank, &run->shard);
    (void)clattn_mpi_plan_problem(run->plan, &run->local);
    for (int id = 0; id < NUM_TENSORS; id++)
        if (tensor_shape_of(whole, (enum tensor_id)id).present)
            fill_tensor(bench, whole, run, (enum tensor_id)id);
}

static void close_run(struct run *run)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        if (run->buffers[id])
            clReleaseMemObject(run->buffers[id]);
    clattn_mpi_plan_release(run->plan);
}

/* ---- timing ------------------------------------------------------------------------------------- */

static clattn_status execute(const struct bench *bench, const struct run *run)
{
    const cl_mem *of = run->buffers;
    const clattn_forward forward = {.struct_size = sizeof forward,
                                    .q.buffer = of[TENSOR_Q],
                                    .k.buffer = of[TENSOR_K],
                                    .v.buffer = of[TENSOR_V],
                                    .o.buffer = of[TENSOR_O],
                                    .lse.buffer = of[TENSOR_LSE]};
    const clattn_backward backward = {.struct_size = sizeof backward,
                                      .q.buffer = of[TENSOR_Q],
                                      .k.buffer = of[TENSOR_K],
                                      .v.buffer = of[TENSOR_V],
                                      .o.buffer = of[TENSOR_O],
                                      .lse.buffer = of[TENSOR_LSE],
                                      .d_o.buffer = of[TENSOR_DO],
                                      .dq.buffer = of[TENSOR_DQ],
                                      .dk.buffer = of[TENSOR_DK],
                                      .dv.buffer = of[TENSOR_DV]};

    return run->local.operation == CLATTN_FORWARD
               ? clattn_mpi_forward(run->plan, bench->queue, &forward)
               : clattn_mpi_backward(run->plan, bench->queue, &backward);
}

/* Once: the slowest rank's time counts. */
static void time_run(const struct bench *bench, struct run *run)
{
    clattn_mpi_plan_info info = {.struct_size = sizeof info};
    double mine, slowest;

    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    if (execute(bench, run) != CLATTN_SUCCESS)
        quit(bench, "an execution failed");
    mine = 1e3 * (MPI_Wtime() - begun);
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    (void)clattn_mpi_plan_describe(run->plan, &info);
    run->milliseconds[run->times] = slowest;
    run->parts[0][run->times] = 1e3 * info.seconds_computing;
    run->parts[1][run->times] = 1e3 * info.seconds_waiting;
    run->parts[2][run->times] = 1e3 * info.seconds_staging;
    run->times++;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(const double *samples, const size_t count)
{
    double sorted[MOST_REPEATS];

    memcpy(sorted, samples, count * sizeof *samples);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* ---- the result --------------------------------------------------------------------------------- */

/* The largest error of some rows of o, as a share of its bound, on all ranks; negative for gradients. */
static double error_of(const struct bench *bench, const clattn_problem *whole,
                       const struct run *run)
{
    const struct tensor_shape s = tensor_shape_of(&run->local, TENSOR_O);
    const size_t rows = run->shard.q_count[0] + run->shard.q_count[1];
    unsigned char *inputs[3] = {NULL}, *o = malloc(s.extent * s.element_bytes + 1);
    struct tensor_view view = {.dropout_seed = 0};
    struct reference_row row;
    double mine = 0, worst = 0;

    if (whole->operation != CLATTN_FORWARD) {
        free(o);
        return -1;
    }
    for (int id = TENSOR_Q; id <= TENSOR_V; id++) {
        const struct tensor_shape all = tensor_shape_of(whole, (enum tensor_id)id);
        inputs[id] = calloc(all.extent, all.element_bytes);
        for (size_t n = 0; inputs[id] && n < all.extent; n++)
            value_set(all.dtype, inputs[id], n, element_of((enum tensor_id)id, n));
        view.at[id] = inputs[id];
    }
    if (!o || !inputs[0] || !inputs[1] || !inputs[2] ||
        !reference_row_open(whole, PRECISION_SINGLE, &row) ||
        clEnqueueReadBuffer(bench->queue, run->buffers[TENSOR_O], CL_TRUE, 0,
                            s.extent * s.element_bytes, o, 0, NULL, NULL) != CL_SUCCESS)
        quit(bench, "o cannot be compared");
    for (size_t n = 0; rows > 0 && n < SAMPLED_ROWS; n++) {
        const size_t here = n * (rows - 1) / (SAMPLED_ROWS - 1), b = n % whole->batch;
        const size_t h = n * 7 % whole->heads;
        reference_row_compute(whole, &view, b, h, whole_row(run, false, here), &row);
        for (size_t d = 0; d < whole->dim_v; d++)
            mine = fmax(mine, fabs(value_get(s.dtype, o, tensor_index(&s, b, h, here, d)) -
                                   row.o[d].value) /
                                  row.o[d].bound);
    }
    reference_row_close(&row);
    for (int id = TENSOR_Q; id <= TENSOR_V; id++)
        free(inputs[id]);
    free(o);
    MPI_Allreduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static json_t *numbers(const double *x, const size_t count)
{
    json_t *list = json_array();

    for (size_t n = 0; n < count; n++)
        json_array_append_new(list, json_real(x[n]));
    return list;
}

static json_t *rates_of(const clattn_mpi_rates *r)
{
    return json_pack("{s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "flops", r->flops,
                     "copy_bandwidth", r->copy_bandwidth, "overhead", r->overhead, "node_ranks",
                     r->node_ranks, "node_latency", r->node_latency, "node_bandwidth",
                     r->node_bandwidth, "latency", r->latency, "bandwidth", r->bandwidth);
}

static void report_run(struct bench *bench, const char *text, const clattn_problem *whole,
                       const struct run *run)
{
    clattn_mpi_plan_info info = {.struct_size = sizeof info};
    const double error = error_of(bench, whole, run);
    double middle[4];

    if (bench->rank != 0)
        return;
    json_t *rates = rates_of(&bench->rates);
    (void)clattn_mpi_plan_describe(run->plan, &info);
    middle[0] = median_of(run->milliseconds, run->times);
    for (int n = 0; n < 3; n++)
        middle[n + 1] = median_of(run->parts[n], run->times);
    printf("  %-12s %9.2f %10.2f %9.1f %9.2f %9.2f %9.2f %7zu %9.1f", run->mode->name, middle[0],
           1e3 * info.seconds_predicted, clattn_problem_flops(whole) / middle[0] / 1e6, middle[1],
           middle[2], middle[3], info.parts, (double)info.bytes_sent / 1e6);
    if (error >= 0)
        printf(" %6.3f", error);
    printf("\n");
    fflush(stdout);
    json_array_append_new(
        bench->rows,
        json_pack("{s:s, s:O, s:s, s:f, s:i, s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:f}", "problem",
                  text, "rates", rates, "mode", run->mode->name, "predicted",
                  1e3 * info.seconds_predicted, "heads_ranks", info.heads_ranks, "places",
                  info.places, "milliseconds", numbers(run->milliseconds, run->times), "computing",
                  numbers(run->parts[0], run->times), "waiting", numbers(run->parts[1], run->times),
                  "staging", numbers(run->parts[2], run->times), "parts", (json_int_t)info.parts,
                  "bytes_sent", (json_int_t)info.bytes_sent, "error", error));
    json_decref(rates);
}

static void run_problem(struct bench *bench, const char *text)
{
    static struct run runs[MOST_MODES];
    clattn_problem whole;
    char reason[200];

    if (clattn_problem_parse(text, &whole, reason, sizeof reason) != CLATTN_SUCCESS)
        quit(bench, reason);
    if (whole.bias || whole.mask || whole.alibi || whole.sinks || whole.q_lengths ||
        whole.kv_lengths || whole.total_q || whole.total_kv || whole.dslopes || whole.dsinks)
        quit(bench, "this program times problems of q, k and v alone");
    if (clattn_mpi_measure(MPI_COMM_WORLD, bench->context, &whole, &bench->rates) != CLATTN_SUCCESS)
        quit(bench, "no rates");
    if (bench->rank == 0)
        printf("%s\n", text);
    for (size_t n = 0; n < bench->num_modes; n++)
        open_run(bench, &whole, &runs[n], &bench->modes[n]);
    for (int turn = -1; turn < bench->repeat; turn++)
        for (size_t n = 0; n < bench->num_modes; n++) {
            if (runs[n].plan)
                time_run(bench, &runs[n]);
            if (turn < 0) /* to warm up */
                runs[n].times = 0;
        }
    for (size_t n = 0; n < bench->num_modes; n++) {
        if (runs[n].plan)
            report_run(bench, text, &whole, &runs[n]);
        close_run(&runs[n]);
    }
}

/* ---- arguments ---------------------------------------------------------------------------------- */

static bool add_mode(struct bench *bench, const char *name)
{
    static const struct mode known[] = {{CLATTN_MPI_ALL_GATHER, 0, "all-gather"},
                                        {CLATTN_MPI_RING, 0, "ring"},
                                        {CLATTN_MPI_HEADS, 0, "heads"},
                                        {CLATTN_MPI_SPLIT_KV, 0, "split-kv"},
                                        {CLATTN_MPI_AUTO, 0, "auto"}};
    struct mode mode = {CLATTN_MPI_HEADS_RING, 0, name};

    if (bench->num_modes == MOST_MODES)
        return false;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strcmp(known[n].name, name) == 0)
            mode = known[n];
    if (mode.mode == CLATTN_MPI_HEADS_RING &&
        (strncmp(name, "heads-ring:", 11) != 0 || (mode.heads_ranks = atoi(name + 11)) < 1))
        return false;
    bench->modes[bench->num_modes++] = mode;
    return true;
}

/* Where problems begin; 0 for mistakes. */
static int read_options(struct bench *bench, const int argc, char **argv)
{
    int n = 1;

    for (; n + 1 < argc && strncmp(argv[n], "--", 2) == 0; n += 2) {
        const char *value = argv[n + 1];
        if (strcmp(argv[n], "--mode") == 0 && add_mode(bench, value))
            continue;
        if (strcmp(argv[n], "--repeat") == 0 && (bench->repeat = atoi(value)) >= 1 &&
            bench->repeat < MOST_REPEATS)
            continue;
        if (strcmp(argv[n], "--speed") == 0 && (bench->speed = atof(value)) > 0)
            continue;
        if (strcmp(argv[n], "--json") == 0) {
            bench->json = value;
            continue;
        }
        return 0;
    }
    if (bench->num_modes == 0 &&
        !(add_mode(bench, "all-gather") && add_mode(bench, "ring") && add_mode(bench, "heads")))
        return 0;
    return n < argc && strncmp(argv[n], "--", 2) != 0 ? n : 0;
}

static void write_json(const struct bench *bench)
{
    const clattn_device_info *device = clattn_context_device(bench->context);
    char version[MPI_MAX_LIBRARY_VERSION_STRING], date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    int length;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:O}", "schema", "clattn-mpi-1", "date",
                  date, "clattn", CLATTN_VERSION_STRING, "mpi", version, "device", device->name,
                  "driver", device->driver_version, "compute_units", (int)device->compute_units,
                  "ranks", bench->ranks, "rows", bench->rows);
    if (!root || json_dump_file(root, bench->json, JSON_INDENT(1)) != 0)
        quit(bench, "the results cannot be written");
    json_decref(root);
}

int main(int argc, char **argv)
{
    struct bench bench = {.repeat = 7, .rows = json_array()};
    cl_int error;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.ranks);
    const int first = read_options(&bench, argc, argv);
    if (first == 0) {
        if (bench.rank == 0)
            fputs(help, stderr);
        MPI_Finalize();
        return 2;
    }
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = print_message, .log_user_data = &bench.rank};
    if (clattn_context_create_default(NULL, &options, &bench.context) != CLATTN_SUCCESS)
        quit(&bench, "no device");
    bench.queue = clCreateCommandQueue(clattn_context_opencl(bench.context),
                                       clattn_context_device(bench.context)->device, 0, &error);
    if (error != CL_SUCCESS)
        quit(&bench, "no queue");
    if (bench.rank == 0)
        printf(
            "%d ranks, %s, %u units each\n  mode                ms  predicted   GFLOP/s computing"
            "   waiting   staging   parts   MB sent  error\n",
            bench.ranks, clattn_context_device(bench.context)->name,
            (unsigned)clattn_context_device(bench.context)->compute_units);
    for (int n = first; n < argc; n++)
        run_problem(&bench, argv[n]);
    if (bench.json && bench.rank == 0)
        write_json(&bench);
    json_decref(bench.rows);
    clReleaseCommandQueue(bench.queue);
    clattn_context_release(bench.context);
    MPI_Finalize();
    return 0;
}
