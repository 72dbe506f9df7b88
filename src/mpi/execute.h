/* SPDX-License-Identifier: Apache-2.0 */
/* An execution on this rank, without the checks. */
#ifndef MPI_EXECUTE_H
#define MPI_EXECUTE_H

#include "mpi/internal.h"

/* Execute with the plan's sequence lengths. */
void run_forward(clattn_mpi_plan *plan, const clattn_forward_tensors *tensors);
void run_backward(clattn_mpi_plan *plan, const clattn_backward_tensors *tensors);

#endif
