/* Which problems and options can be. Pure: no MPI, no OpenCL. */
#ifndef MPI_OPTIONS_H
#define MPI_OPTIONS_H

#include "mpi/internal.h"

/* A fault unless the whole can be distributed as the options say. */
void options_check(const clattn_problem *whole, int ranks, const clattn_mpi_options *options,
                   struct fault *fault);

/* Ranks that exchange heads; 1 for CLATTN_MPI_AUTO. */
int options_members(const clattn_mpi_options *options, int ranks);

/* Whether a sound problem's heads can be exchanged among so many ranks. */
bool options_share_heads(const clattn_problem *whole, int ranks, int members);

/* As the options say, or the default. */
size_t options_gather_bytes(const clattn_mpi_options *options);

#endif
