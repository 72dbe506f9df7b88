/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench-mpi: `clattn-bench run --mpi`, which becomes this program. */
#include "bench/commands/options.h"
#include "bench/mpi/commands.h"
#include "cli/standard_streams.h"
#include "os/environment.h"
#include "os/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -n N clattn-bench run --mpi [OPTION...] [WORKLOAD | PROBLEM | FILE]...\n"
    "clattn-bench-mpi is the part of clattn-bench that MPI is needed for.\n";

/* ---- devices --------------------------------------------------------------------------------- */

/* The n-th of a list, counted around it. */
static void choose(char *choice, size_t bytes, const char *list, int n)
{
    int count = 1;

    for (const char *c = list; *c != '\0'; c++)
        count += *c == ',';
    for (n %= count; n > 0; n--)
        list = strchr(list, ',') + 1;
    snprintf(choice, bytes, "%.*s", (int)strcspn(list, ","), list);
}

bool mpi_target_open(const struct ranks *ranks, struct target *target, const char *selector,
                     struct message *why)
{
    char choice[256] = "";
    size_t devices = 0;

    if (selector != NULL && strcmp(selector, "all") == 0) {
        clattn_device_list(NULL, 0, &devices);
        snprintf(choice, sizeof choice, "%zu", (size_t)ranks->local % (devices + (devices == 0)));
    } else if (selector != NULL) {
        choose(choice, sizeof choice, selector, ranks->local);
    }
    const bool ok = target_open(target, selector != NULL ? choice : NULL, why);
    const bool all = ranks_agree(ranks, ok, why);
    if (ok && !all)
        target_close(target);
    return all;
}

/* ---- what all end with ----------------------------------------------------------------------- */

int mpi_agree_status(const struct ranks *ranks, int status)
{
    const int mine = status == 0 ? INT_MAX : ranks->rank;
    int first;

    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == INT_MAX)
        return 0;
    MPI_Bcast(&status, 1, MPI_INT, first, MPI_COMM_WORLD);
    if (first > 0 && ranks->rank == 0) /* ranks above 0 print nothing themselves */
        fprintf(stderr, "clattn-bench run: rank %d does not understand its options\n", first);
    return status;
}

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
