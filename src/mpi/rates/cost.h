/* SPDX-License-Identifier: Apache-2.0 */
/* The predicted seconds of an execution in a mode, by the rates of devices and network;
 * CLATTN_MPI_AUTO chooses by them. Pure: no MPI, no OpenCL. */
#ifndef MPI_COST_H
#define MPI_COST_H

#include "mpi/options.h"

/* The cost of the options' mode; for CLATTN_MPI_AUTO, of the fastest among ring, heads, and heads and ring. A later
 * one of these has to be 5 % faster, so that what hardly matters depends little on measured rates. Arguments are sound, and
 * speeds those of all ranks, over 0. False without memory. */
bool cost_of_options(const clattn_problem *whole, int ranks, const double *speeds,
                     const clattn_mpi_options *options, const clattn_mpi_rates *rates,
                     clattn_mpi_prediction *prediction);

#endif
