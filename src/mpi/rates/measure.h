/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of devices and network, measured. */
#ifndef MPI_MEASURE_H
#define MPI_MEASURE_H

#include "mpi/internal.h"

/* Collective; the status is the same on all ranks. Share: how fast this rank's device is meant to be, as a share of
 * the mean of all. */
clattn_status measure_rates(MPI_Comm communicator, clattn_context *context,
                            const clattn_problem *whole, const clattn_plan_options *options,
                            double share, clattn_mpi_rates *rates);

#endif
