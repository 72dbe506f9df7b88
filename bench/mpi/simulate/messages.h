/* Included before all else that the simulation compiles: two calls that SMPI would spend memory and arithmetic on.
 * The contents of messages are of no interest. */
#ifndef SIMULATE_MESSAGES_H
#define SIMULATE_MESSAGES_H

#include <mpi.h>

/* SMPI copies messages of derived types into buffers of its own: pages are of one of its own types. */
#define PAGE_BYTES 32
#define MPI_Type_contiguous(count, old, made) (*(made) = MPI_C_LONG_DOUBLE_COMPLEX)
#define MPI_Type_commit(type) ((void)(type))
#define MPI_Type_free(type) ((void)(type))

/* A reduce-scatter around a ring, which is what MPIs take for long messages: a rank sends each other's share to the
 * next one. Nothing is added up. */
#define MPI_Reduce_scatter(from, to, counts, type, operation, communicator)                        \
    simulated_reduce_scatter(from, to, counts, communicator)
int simulated_reduce_scatter(const void *from, void *to, const int *counts, MPI_Comm communicator);

#endif
