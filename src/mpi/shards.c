/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shards.h"

size_t whole_pages(const size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t pair_elements(const clattn_mpi_plan *plan, const size_t rows)
{
    return whole_batches(&plan->whole, true) * plan->kv_heads * rows *
           (plan->whole.dim_qk + plan->whole.dim_v);
}

size_t keys_bytes(const clattn_mpi_plan *plan, const size_t rows)
{
    return pair_elements(plan, rows) * element_bytes(plan);
}

size_t gradients_bytes(const clattn_mpi_plan *plan, const size_t rows)
{
    return pair_elements(plan, rows) * sizeof(float);
}

void packed_pair(const clattn_mpi_plan *plan, const cl_mem buffer, const size_t rows,
                 struct tensor pair[2])
{
    const size_t heads = plan->kv_heads, dim = plan->whole.dim_qk;

    pair[0] = tensor_packed_at(buffer, 0, heads, rows, dim);
    pair[1] = tensor_packed_at(buffer, whole_batches(&plan->whole, true) * heads * rows * dim,
                               heads, rows, plan->whole.dim_v);
}

void move_pair(clattn_mpi_plan *plan, const enum kernel kernel, const size_t rows,
               const struct tensor from[2], const struct tensor to[2])
{
    const size_t batches = whole_batches(&plan->whole, true), heads = plan->kv_heads;
    const struct move moves[2] = {{{batches, heads, rows, plan->whole.dim_qk}, from[0], to[0]},
                                  {{batches, heads, rows, plan->whole.dim_v}, from[1], to[1]}};

    device_move_both(plan, kernel, moves);
}

bool place_sees(const clattn_mpi_plan *plan, const int of_queries, const int of_keys)
{
    const struct shard *of = plan->partition.place;

    return shards_see(&plan->whole, &plan->lengths, &of[of_queries], &of[of_keys], plan->parts);
}

void wait_for(clattn_mpi_plan *plan, MPI_Request *requests, const int count)
{
    const double begun = MPI_Wtime();
    MPI_Status statuses[MOST_REQUESTS];

    MPI_Waitall(count, requests, statuses);
    plan->times.waiting += MPI_Wtime() - begun;
}

void shards_forward(clattn_mpi_plan *plan, const struct forward_task *task)
{
    forward_begin(plan, task);
    if (plan->mode == CLATTN_MPI_SPLIT_KV)
        split_forward(plan, task);
    else
        ring_forward(plan, task);
    forward_end(plan, task);
}

void shards_backward(clattn_mpi_plan *plan, const struct backward_task *task)
{
    backward_begin(plan, task);
    ring_backward(plan, task);
    backward_end(plan, task);
}
