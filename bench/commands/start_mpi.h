/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on ranks of MPI are another program's, so that this one runs where there is no MPI. */
#ifndef CLATTN_BENCH_MPI_START_H
#define CLATTN_BENCH_MPI_START_H

#include <stdbool.h>

/* Returns whether a command's arguments have the option --mpi. */
bool mpi_wanted(int argc, char **argv);

/* Becomes clattn-bench-mpi, which is beside this program or on the PATH, with the command's arguments.
 * Returns only if it is not there, which was said: what the process is to end with. */
int mpi_start(int argc, char **argv);

#endif
