/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/rates/measure.h"
#include "mpi/device.h"
#include "mpi/options.h"

#include <math.h>
#include <stdlib.h>

enum { SMALL = 8, LARGE = 2 << 20, REPEATS = 5, TAG_MEASURE = 4 };

/* Seconds in which every rank sends so many bytes to the one that is `stride` further on: of the slowest rank, the
 * best of some turns. Collective. */
static double shift_time(MPI_Comm communicator, const int stride, const int bytes,
                         unsigned char *memory)
{
    double best = HUGE_VAL, slowest;
    int rank, ranks;

    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    for (int n = 0; n < REPEATS; n++) {
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

    *rates = (clattn_mpi_rates){.struct_size = 0};
    if (!memory)
        fault_set(&fault, CLATTN_OUT_OF_MEMORY, "no host memory to measure the network with");
    /* The first time kernels are compiled. Devices that share a machine are measured at the same time. */
    for (int n = 0; n < 2; n++) {
        if (fault_none(&fault))
            device_rates(context, whole, options, &fault, &mine);
        MPI_Barrier(communicator);
    }
    const clattn_status status = fault_agree(communicator, context, &fault);
    if (status == CLATTN_SUCCESS) {
        measure_network(communicator, memory, &mine);
        /* Rates of the slowest rank; what is better when it is less with its sign turned. */
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
    size_t rows = 0;
    int ranks;

    if (speed)
        *speed = 0;
    if (communicator == MPI_COMM_NULL)
        return CLATTN_INVALID_ARGUMENT; /* nobody to agree with */
    MPI_Comm_size(communicator, &ranks);
    if (!context || !whole || !speed)
        fault_set(&fault, CLATTN_INVALID_ARGUMENT,
                  "clattn_mpi_measure_speed: context, problem and speed must not be null");
    else
        options_check(whole, ranks, &options, &fault);
    if (fault_none(&fault))
        rows = device_speed_rows(context, whole, plan_options, &fault);
    clattn_status status = fault_agree(communicator, context, &fault);
    if (status != CLATTN_SUCCESS)
        return status;
    /* From here on all at once: devices may share a machine. */
    const double mine = device_speed(context, whole, plan_options, &fault, rows);
    status = fault_agree(communicator, context, &fault);
    *speed = status == CLATTN_SUCCESS ? mine : 0;
    return status;
}
