/* SPDX-License-Identifier: Apache-2.0 */
/* Included before all else that the simulation compiles: calls that SMPI would spend memory on.
 * The contents of messages are of no interest. */
#ifndef SIMULATE_MESSAGES_H
#define SIMULATE_MESSAGES_H

#include <mpi.h>

/* SMPI copies messages of derived types into buffers of its own: pages are of one of its own types. */
#define PAGE_BYTES 32
#define MPI_Type_contiguous(count, old, made) (*(made) = MPI_C_LONG_DOUBLE_COMPLEX)
#define MPI_Type_commit(type) ((void)(type))
#define MPI_Type_free(type) ((void)(type))

#endif
