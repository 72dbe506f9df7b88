/* SPDX-License-Identifier: Apache-2.0 */
/* What clattn-bench-mpi does: commands of clattn-bench on ranks of MPI. All ranks return alike. */
#ifndef CLATTN_BENCH_MPI_COMMANDS_H
#define CLATTN_BENCH_MPI_COMMANDS_H

#include "bench/mpi/ranks.h"
#include "bench/timing/target.h"

int mpi_run_command(int argc, char **argv);
int mpi_verify_command(int argc, char **argv);

/* Opens this rank's device: of a list with commas, or of "all", that of its number on its machine.
 * Collective. */
bool mpi_target_open(const struct ranks *ranks, struct target *target, const char *selector,
                     struct message *why);

/* Whether options were understood on all ranks: 0, or the exit status of all. Collective. */
int mpi_agree_status(const struct ranks *ranks, const char *command, int status);

#endif
