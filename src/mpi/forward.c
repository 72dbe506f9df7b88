/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of this place's queries over blocks of keys: one state of o and lse in f32, which each piece joins. */
#include "mpi/pieces.h"

#include <math.h>
#include <string.h>

void forward_begin(clattn_mpi_plan *plan, const struct forward_task *task)
{
    plan->state_o = state_in_o(&plan->whole, plan->mode == CLATTN_MPI_SPLIT_KV)
                        ? task->o
                        : place_sums(plan, plan->whole.dim_v);
    memset(plan->begun, 0, sizeof plan->begun);
    device_fill(plan, place_lse(plan).buffer, place_rows(plan), -HUGE_VALF);
}

static void forward_piece(clattn_mpi_plan *plan, const struct forward_task *task,
                          const struct block *block, const struct piece *piece)
{
    const struct part *part = piece->part;
    const clattn_forward_tensors *of = task->of;
    const struct tensor q = piece_queries(piece, task->q), k = piece_keys(piece, block->k);
    const struct tensor v = piece_keys(piece, block->v);
    const size_t batches = piece_query_batches(piece), heads = plan->heads, rows = part->q.count;
    const size_t dim = plan->whole.dim_v;
    const struct tensor all_o = piece_queries(piece, plan->state_o);
    const struct tensor all_lse = piece_queries(piece, place_lse(plan));
    const bool begins = piece_begins_queries(plan, piece);
    const struct tensor o =
        begins ? all_o : packed_in_pool(plan, POOL_PART_O, batches, heads, rows, dim, 4);
    const bool is_all = begins && piece_has_all_queries(plan, piece);
    const struct tensor lse = is_all ? all_lse : part_lse(plan, piece);
    clattn_problem p = part_problem(plan, part);
    struct part_ints ints;

    p.q = layout_of(q);
    p.k = layout_of(k);
    p.v = layout_of(v);
    p.o = layout_of(o);
    const clattn_plan *made = part_plan(plan, &p);
    part_ints_make(plan, &task->lengths, part, &p, &ints);
    if (part->packed && !is_all) /* rows of sequences alone are written */
        device_fill(plan, lse.buffer, batches * heads * rows, -HUGE_VALF);
    const clattn_forward_tensors tensors = {.struct_size = sizeof tensors,
                                            .q = buffer_of(q),
                                            .k = buffer_of(k),
                                            .v = buffer_of(v),
                                            .o = buffer_of(o),
                                            .lse = buffer_of(lse),
                                            PIECE_OPERANDS(plan, piece, of, p, ints, made)};
    if (!plan->dry && fault_none(&plan->fault))
        fault_call(&plan->fault,
                   clattn_attention_forward(made, plan->queue, &tensors, 0, NULL, NULL),
                   "clattn_attention_forward");
    part_ints_release(&ints);

    plan->times.parts++;
    if (begins) {
        if (!is_all)
            device_move(plan, KERNEL_COPY_FLOATS, (size_t[]){batches, heads, rows, 1}, lse,
                        all_lse);
        return;
    }
    struct rows_call call;
    rows_begin(&call, plan, KERNEL_MERGE_STATE, (size_t[]){batches, heads, rows, dim});
    rows_tensor(&call, o);
    rows_tensor(&call, lse);
    rows_tensor(&call, all_o);
    rows_tensor(&call, all_lse);
    rows_run(&call);
}

void forward_block(clattn_mpi_plan *plan, const struct forward_task *task, const int chunk,
                   const struct block *block)
{
    const size_t count = block_parts(plan, &task->lengths, chunk, block);

    for (size_t n = 0; n < count && fault_none(&plan->fault); n++) {
        const struct piece piece = piece_of(plan, chunk, block, &plan->parts[n]);
        forward_piece(plan, task, block, &piece);
    }
}

size_t state_bytes(const clattn_mpi_plan *plan)
{
    return place_rows(plan) * (plan->whole.dim_v + 1) * sizeof(float);
}

void state_read(clattn_mpi_plan *plan, void *state)
{
    const size_t of_o = place_rows(plan) * plan->whole.dim_v * sizeof(float);

    device_read(plan, place_sums(plan, plan->whole.dim_v).buffer, 0, state, of_o);
    device_read(plan, place_lse(plan).buffer, 0, (unsigned char *)state + of_o,
                place_rows(plan) * sizeof(float));
}

void state_merge(clattn_mpi_plan *plan, const void *state, const bool first)
{
    const size_t rows = place_rows(plan), dim = plan->whole.dim_v;
    const size_t of_o = rows * dim * sizeof(float);
    const unsigned char *lse = (const unsigned char *)state + of_o;
    cl_mem o = first ? place_sums(plan, dim).buffer : pool_take(plan, POOL_PART_O, of_o);
    cl_mem o_lse =
        first ? place_lse(plan).buffer : pool_take(plan, POOL_PART_LSE, rows * sizeof(float));
    struct rows_call call;

    device_write(plan, o, 0, state, of_o);
    device_write(plan, o_lse, 0, lse, rows * sizeof(float));
    if (first)
        return;
    rows_begin(&call, plan, KERNEL_MERGE_STATE,
               (size_t[]){place_batches(plan), plan->heads, place_queries(plan), dim});
    rows_tensor(&call, tensor_packed_at(o, 0, plan->heads, place_queries(plan), dim));
    rows_tensor(&call, tensor_packed_at(o_lse, 0, plan->heads, place_queries(plan), 1));
    rows_tensor(&call, place_sums(plan, dim));
    rows_tensor(&call, place_lse(plan));
    rows_run(&call);
}

void forward_end(clattn_mpi_plan *plan, const struct forward_task *task)
{
    const size_t dim = plan->whole.dim_v;
    const clattn_buffer sinks = own_heads(plan, task->of->sinks);
    const cl_int has_lse = task->lse.buffer != NULL, has_sinks = plan->whole.sinks != 0;
    const cl_int in_place = state_in_o(&plan->whole, plan->mode == CLATTN_MPI_SPLIT_KV);
    const cl_ulong sinks_at = sinks.offset;
    struct span rows;

    for (size_t row = 0; next_rows(plan, &task->lengths, false,
                                   (struct span){0, place_queries(plan)}, &row, &rows);) {
        struct rows_call call;
        rows_begin(&call, plan, KERNEL_STORE_STATE,
                   (size_t[]){place_batches(plan), plan->heads, rows.count, dim});
        rows_tensor(&call, tensor_rows(plan->state_o, rows.first));
        rows_tensor(&call, tensor_rows(place_lse(plan), rows.first));
        rows_tensor(&call, tensor_rows(task->o, rows.first));
        rows_tensor(&call, tensor_rows(task->lse, rows.first));
        rows_argument(&call, sizeof has_lse, &has_lse);
        rows_argument(&call, sizeof sinks.buffer, &sinks.buffer);
        rows_argument(&call, sizeof sinks_at, &sinks_at);
        rows_argument(&call, sizeof has_sinks, &has_sinks);
        rows_argument(&call, sizeof in_place, &in_place);
        rows_run(&call);
    }
    device_finish(plan, NULL);
}
