/* SPDX-License-Identifier: Apache-2.0 */
/* Under smpirun: what an execution over ranks takes in each mode, with the communication of src/mpi and devices that
 * only take their time (device.c), and what the cost model predicts. See usage below. */
#include "bench/mpi/simulate/device.h"

#include <clattn/clattn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: simulate PROFILE FLOPS COPY_BANDWIDTH OVERHEAD MEMORY_BANDWIDTH NODE_RANKS "
    "NODE_LATENCY\n"
    "                NODE_BANDWIDTH LATENCY BANDWIDTH MODE[,MODE]... PROBLEM\n"
    "PROFILE: a device's facts, as in bench/profiles; numbers: those of clattn_mpi_rates; MODE: "
    "all-gather, ring,\n"
    "heads, split-kv or heads-ring:N; behind a '?' it is only predicted, with zeros for the rest. "
    "Prints for each mode, separated by tabs: problem, ranks, "
    "mode, milliseconds\n"
    "simulated and predicted, efficiency in percent likewise, milliseconds that rank 0 computed, "
    "waited and "
    "copied, and GB\n"
    "of its device beside the tensors, as allocated and as predicted.\n";

static clattn_context *open_context(const char *path)
{
    static char text[1 << 16];
    clattn_device_info facts = {.struct_size = sizeof facts};
    char reason[200] = "no such file";
    clattn_context *context = NULL;
    FILE *file = fopen(path, "rb");
    const size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;

    if (file)
        fclose(file);
    const clattn_context_options options = {.struct_size = sizeof options, .profile = &facts};
    if (!file ||
        clattn_device_profile_parse(text, bytes, &facts, reason, sizeof reason) != CLATTN_SUCCESS ||
        clattn_context_create(NULL, NULL, &options, &context) != CLATTN_SUCCESS) {
        fprintf(stderr, "simulate: %s: %s\n", path, reason);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return context;
}

static clattn_mpi_options options_of(const char *mode)
{
    static const struct {
        const char *name;
        clattn_mpi_mode mode;
    } known[] = {{"all-gather", CLATTN_MPI_ALL_GATHER},
                 {"ring", CLATTN_MPI_RING},
                 {"heads", CLATTN_MPI_HEADS},
                 {"split-kv", CLATTN_MPI_SPLIT_KV}};
    clattn_mpi_options options = {.struct_size = sizeof options};

    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strcmp(mode, known[n].name) == 0)
            options.mode = known[n].mode;
    if (strncmp(mode, "heads-ring:", 11) == 0) {
        options.mode = CLATTN_MPI_HEADS_RING;
        options.heads_ranks = atoi(mode + 11);
    }
    return options;
}

/* An execution, the slowest rank's seconds; the same on all ranks. */
static double execute(clattn_mpi_plan *plan, const clattn_problem *whole)
{
    static int any; /* a queue that nothing is enqueued on */
    cl_command_queue queue = (cl_command_queue)(void *)&any;
    const clattn_forward_tensors forward = {.struct_size = sizeof forward};
    const clattn_backward_tensors backward = {.struct_size = sizeof backward};
    double mine, slowest;

    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    const clattn_status status = whole->operation == CLATTN_FORWARD
                                     ? clattn_mpi_forward(plan, queue, &forward)
                                     : clattn_mpi_backward(plan, queue, &backward);
    mine = MPI_Wtime() - begun;
    if (status != CLATTN_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void run_mode(clattn_context *context, const char *text, const clattn_problem *whole,
                     const char *mode, const int rank, const int ranks)
{
    clattn_mpi_prediction prediction = {.struct_size = sizeof prediction};
    clattn_mpi_plan_info info = {.struct_size = sizeof info};
    const bool simulated = mode[0] != '?';
    const char *const name = simulated ? mode : mode + 1;
    clattn_mpi_options options = options_of(name);
    clattn_mpi_plan *plan = NULL;
    double seconds = 0, memory = 0;

    if (simulated &&
        clattn_mpi_plan_create(MPI_COMM_WORLD, context, whole, &options, &plan) != CLATTN_SUCCESS) {
        if (rank == 0)
            fprintf(stderr, "simulate: %s, %s, %d ranks: refused\n", text, mode, ranks);
        return;
    }
    if (simulated) {
        seconds = execute(plan, whole);
        memory = device_memory(plan);
        (void)clattn_mpi_plan_describe(plan, &info);
    }
    if (rank == 0) {
        options.rates = &device_speeds.rates;
        (void)clattn_mpi_predict(whole, ranks, &options, &prediction);
        const double alone = clattn_problem_flops(whole) / device_speeds.rates.flops;
        printf("%s\t%d\t%s\t%.3f\t%.3f\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\n", text, ranks,
               name, 1e3 * seconds, 1e3 * prediction.seconds,
               simulated ? 100 * alone / ranks / seconds : 0,
               100 * alone / ranks / prediction.seconds, 1e3 * info.seconds_computing,
               1e3 * info.seconds_waiting, 1e3 * info.seconds_staging, memory / 1e9,
               prediction.bytes_held / 1e9);
        fflush(stdout);
    }
    clattn_mpi_plan_release(plan);
}

/* A problem's words, which smpirun splits. */
static void join(const int argc, char **argv, const int first, char *text, const size_t bytes)
{
    size_t length = 0;

    text[0] = 0;
    for (int n = first; n < argc && length < bytes; n++)
        length +=
            (size_t)snprintf(text + length, bytes - length, "%s%s", n > first ? " " : "", argv[n]);
}

int main(int argc, char **argv)
{
    static clattn_context *context; /* of all ranks, which are one process */
    clattn_problem whole;
    char reason[200] = "", text[256];
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    join(argc, argv, 12, text, sizeof text);
    if (argc < 13 || clattn_problem_parse(text, &whole, reason, sizeof reason) != CLATTN_SUCCESS) {
        if (rank == 0)
            fprintf(stderr, "%s%s\n", usage, reason);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (!context) {
        device_speeds.rates = (clattn_mpi_rates){.struct_size = sizeof device_speeds.rates,
                                                 .flops = atof(argv[2]),
                                                 .copy_bandwidth = atof(argv[3]),
                                                 .overhead = atof(argv[4]),
                                                 .node_ranks = atoi(argv[6]),
                                                 .node_latency = atof(argv[7]),
                                                 .node_bandwidth = atof(argv[8]),
                                                 .latency = atof(argv[9]),
                                                 .bandwidth = atof(argv[10])};
        device_speeds.memory_bandwidth = atof(argv[5]);
        context = open_context(argv[1]);
    }
    for (const char *mode = argv[11]; *mode; mode += strspn(mode, ",")) {
        char name[32];
        const int length = (int)strcspn(mode, ",");
        snprintf(name, sizeof name, "%.*s", length, mode);
        run_mode(context, text, &whole, name, rank, ranks);
        mode += length;
    }
    MPI_Finalize();
    return 0;
}
