/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench-mpi: `clattn-bench run --mpi`, which becomes this program. */
#include "bench/commands/options.h"
#include "bench/mpi/ranks.h"
#include "cli/standard_streams.h"
#include "os/environment.h"
#include "os/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -n N clattn-bench run --mpi [OPTION...] [WORKLOAD | PROBLEM | FILE]...\n"
    "clattn-bench-mpi is the part of clattn-bench that MPI is needed for.\n";

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (strcmp(name, "run") == 0)
        return mpi_run_command(argc - 1, argv + 1);
    const bool asked = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    fputs(help, asked ? stdout : stderr);
    return asked ? EXIT_SUCCESS : EXIT_USAGE;
}

int main(int argc, char **argv)
{
    ca_standard_streams_begin();
    if (ca_environment_value("POCL_AFFINITY") == NULL)
        ca_variable_set("POCL_AFFINITY", "0"); /* ranks of a machine would share a core */
    MPI_Init(&argc, &argv);
    const struct ranks ranks = ranks_open();
    /* Only rank 0 prints. */
    if (ranks.rank > 0 &&
        (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL))
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
    const int status = run(argc, argv);
    MPI_Finalize();
    return ca_standard_streams_end("clattn-bench", status);
}
