/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of problems and options. Pure: no MPI, no OpenCL. */
#ifndef MPI_OPTIONS_H
#define MPI_OPTIONS_H

#include "mpi/internal.h"

/* Options of a caller as this library's. */
struct read_options {
    clattn_mpi_options options;
    clattn_mpi_rates rates;
};

/* The caller's options, in `own` where they or their rates are of another version; NULL, and a fault, if they are of
 * none. */
const clattn_mpi_options *options_read(const clattn_mpi_options *given, struct read_options *own,
                                       struct fault *fault);

/* A fault unless the whole can be distributed as the options say. */
void options_check(const clattn_problem *whole, int ranks, const clattn_mpi_options *options,
                   struct fault *fault);

/* Ranks that exchange heads; 1 for CLATTN_MPI_AUTO. */
int options_members(const clattn_mpi_options *options, int ranks);

/* Returns whether a sound problem's heads can be exchanged among so many ranks. */
bool options_share_heads(const clattn_problem *whole, int ranks, int members);

#endif
