/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of clattn-bench on ranks of MPI. All ranks return alike. */
#ifndef CLATTN_BENCH_MPI_COMMANDS_H
#define CLATTN_BENCH_MPI_COMMANDS_H

#include "bench/mpi/ranks.h"
#include "bench/timing/target.h"

int mpi_run_command(int argc, char **argv);

/* Opens this rank's device: of a list with commas, or of "all", that of its number on its machine.
 * Collective. */
bool mpi_target_open(const struct ranks *ranks, struct target *target, const char *selector,
                     struct message *why);

/* Returns 0 if all ranks understood their options, else the exit status of all. Collective. */
int mpi_agree_status(const struct ranks *ranks, int status);

#endif
