/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over the places of a ring, on tensors of this place: how keys come to this rank's
 * queries. */
#ifndef MPI_SHARDS_H
#define MPI_SHARDS_H

#include "mpi/device.h"

/* Computes in the plan's mode; collective in plan->ring. A rank that has failed still takes part in
 * all messages, so that no other rank waits for it. */
void shards_forward(clattn_mpi_plan *plan, const struct forward_task *task);
/* Leaves sums over this rank's queries in plan->list_sums. */
void shards_backward(clattn_mpi_plan *plan, const struct backward_task *task);

void ring_forward(clattn_mpi_plan *plan, const struct forward_task *task);
void ring_backward(clattn_mpi_plan *plan, const struct backward_task *task);
void split_forward(clattn_mpi_plan *plan, const struct forward_task *task);

/* ---- what both need (shards.c) ---------------------------------------------------------------- */

/* Messages are counted in pages, so that an int counts enough of them. */
#define PAGE_BYTES 4096
size_t whole_pages(size_t bytes);

/* Bytes of so many rows of keys and values of this rank's heads: in the dtype, or their gradients in f32. */
size_t keys_bytes(const clattn_mpi_plan *plan, size_t rows);
size_t gradients_bytes(const clattn_mpi_plan *plan, size_t rows);

/* k and v, or dk and dv, of so many rows that lie packed in a buffer, one behind the other. */
void packed_pair(const clattn_mpi_plan *plan, cl_mem buffer, size_t rows, struct tensor pair[2]);

/* Moves rows of k and v, or of their gradients. */
void move_pair(clattn_mpi_plan *plan, enum kernel kernel, size_t rows, const struct tensor from[2],
               const struct tensor to[2]);

/* Returns whether the queries of one place see keys of another, with the execution's lengths. */
bool place_sees(const clattn_mpi_plan *plan, int of_queries, int of_keys);

/* Waits for messages; timed as waiting. */
void wait_for(clattn_mpi_plan *plan, MPI_Request *requests, int count);

#endif
