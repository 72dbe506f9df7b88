/* SPDX-License-Identifier: Apache-2.0 */
/* A call of one of the kernels in cl/elementwise/shards.cl, argument by argument. */
#ifndef MPI_ROWS_H
#define MPI_ROWS_H

#include "mpi/internal.h"

struct rows_call {
    clattn_mpi_plan *plan;
    cl_kernel kernel;
    cl_uint argument; /* index of the next argument */
    size_t count;     /* number of rows: the largest number of any tensor */
    size_t tensors;   /* 2 for kernels that move rows of two tensors, else 1 */
};

void rows_begin(struct rows_call *call, clattn_mpi_plan *plan, enum kernel kernel,
                const size_t size[4]);
void rows_argument(struct rows_call *call, size_t bytes, const void *value);
void rows_tensor(struct rows_call *call, struct tensor tensor);
void rows_run(struct rows_call *call);

#endif
