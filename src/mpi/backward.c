/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of this rank's queries and of the blocks of keys that arrive, in f32, piece by piece.
 * */
#include "mpi/pieces.h"
#include "mpi/shards.h"

#include <string.h>

/* The place's o in f32: parts, whose gradients are f32 to be added, read it so. */
static struct tensor wide_o(clattn_mpi_plan *plan, const struct backward_task *task)
{
    return plan->whole.dtype == CLATTN_F32
               ? task->o
               : packed_in_pool(plan, POOL_WIDE_O, place_batches(plan), plan->heads,
                                place_queries(plan), plan->whole.dim_v, sizeof(float));
}

size_t function_gradients(const clattn_mpi_plan *plan)
{
    return plan->whole.dfunction
               ? clattn_problem_function_gradient(&plan->whole, CLATTN_FUNCTION_OPERANDS)
               : 0;
}

/* A part's gradients of a list, such as dslopes, floats even in f16; and their sum, which lies before them. */
static clattn_buffer part_list(clattn_mpi_plan *plan, const enum pool_id id, const size_t count)
{
    return (clattn_buffer){.buffer = pool_take(plan, id, 2 * count * sizeof(float)),
                           .offset = count};
}

static void add_list(clattn_mpi_plan *plan, const enum pool_id id, const size_t count)
{
    const clattn_buffer list = part_list(plan, id, count);
    const struct tensor sum = tensor_packed_at(list.buffer, 0, 1, count, 1);
    const struct tensor part = tensor_packed_at(list.buffer, count, 1, count, 1);

    device_move(plan, KERNEL_ADD_FLOATS, (size_t[]){1, 1, count, 1}, part, sum);
}

void backward_begin(clattn_mpi_plan *plan, const struct backward_task *task)
{
    const size_t functions = function_gradients(plan);

    if (plan->whole.dtype != CLATTN_F32)
        device_move(
            plan, KERNEL_WIDEN_ROWS,
            (size_t[]){place_batches(plan), plan->heads, place_queries(plan), plan->whole.dim_v},
            task->o, wide_o(plan, task));
    memset(plan->begun, 0, sizeof plan->begun);
    plan->has_dq = false;
    (void)place_sums(plan, plan->whole.dim_qk);
    if (plan->whole.dslopes)
        device_fill(plan, part_list(plan, POOL_SLOPES, plan->heads).buffer, plan->heads, 0.0f);
    if (functions > 0)
        device_fill(plan, part_list(plan, POOL_FUNCTION, functions).buffer, functions, 0.0f);
}

/* dq begins as zero, unless the first piece writes all of it. */
static void begin_dq(clattn_mpi_plan *plan, const bool writes_all)
{
    if (!plan->has_dq && !writes_all)
        device_fill(plan, place_sums(plan, plan->whole.dim_qk).buffer,
                    place_rows(plan) * plan->whole.dim_qk, 0.0f);
    plan->has_dq = true;
}

/* The tensors that a part's gradients are written to, in f32: the place's and the block's sums if
 * nothing was added to these yet, else packed tensors of the part's own. lse: packed. */
struct part_gradients {
    struct tensor dq, dk, dv, lse;
    bool begins_queries, begins_keys;
};

static struct part_gradients part_gradients_of(clattn_mpi_plan *plan,
                                               const struct backward_task *task,
                                               const struct block *block, const struct piece *piece)
{
    const size_t batches = piece_query_batches(piece), rows = piece->part->q.count;
    const size_t keys = piece->part->kv.count, bytes = sizeof(float);
    const bool is_all = piece_has_all_queries(plan, piece);
    const size_t dims[2] = {plan->whole.dim_qk, plan->whole.dim_v};
    struct part_gradients g = {.dq = piece_queries(piece, place_sums(plan, dims[0])),
                               .dk = piece_keys(piece, block->dk),
                               .dv = piece_keys(piece, block->dv),
                               .lse = is_all ? task->lse : part_lse(plan, piece),
                               .begins_queries = piece_begins_queries(plan, piece),
                               .begins_keys = !block->begun};

    begin_dq(plan, is_all);
    if (!g.begins_queries)
        g.dq = packed_in_pool(plan, POOL_PART_O, batches, plan->heads, rows, dims[0], bytes);
    if (!g.begins_keys) {
        g.dk = packed_in_pool(plan, POOL_PART_DK, piece_key_batches(piece), plan->kv_heads, keys,
                              dims[0], bytes);
        g.dv = packed_in_pool(plan, POOL_PART_DV, piece_key_batches(piece), plan->kv_heads, keys,
                              dims[1], bytes);
    }
    if (!is_all)
        device_move(plan, KERNEL_COPY_FLOATS, (size_t[]){batches, plan->heads, rows, 1},
                    piece_queries(piece, task->lse), g.lse);
    return g;
}

/* Adds a part's gradients to those of the rank and of the block, unless they were written there.
 * */
static void add_gradients(clattn_mpi_plan *plan, const struct block *block,
                          const struct piece *piece, const struct part_gradients *g)
{
    const size_t dims[2] = {plan->whole.dim_qk, plan->whole.dim_v};
    const size_t batches = piece_key_batches(piece), heads = plan->kv_heads;
    const size_t keys = piece->part->kv.count;
    const struct move moves[2] = {
        {{batches, heads, keys, dims[0]}, g->dk, piece_keys(piece, block->dk)},
        {{batches, heads, keys, dims[1]}, g->dv, piece_keys(piece, block->dv)}};

    if (!g->begins_queries)
        device_move(
            plan, KERNEL_ADD_FLOATS,
            (size_t[]){piece_query_batches(piece), plan->heads, piece->part->q.count, dims[0]},
            g->dq, piece_queries(piece, place_sums(plan, dims[0])));
    if (!g->begins_keys)
        device_move_both(plan, KERNEL_ADD_FLOATS, moves);
}

/* Sets gradients that are added later to 0, since a part does not write rows that belong to no sequence of a packed batch. */
static void clear_gradients(clattn_mpi_plan *plan, const struct piece *piece,
                            const struct part_gradients *g)
{
    const size_t keys = plan->kv_heads * piece->part->kv.count;

    if (!g->begins_queries)
        device_fill(plan, g->dq.buffer, plan->heads * piece->part->q.count * plan->whole.dim_qk,
                    0.0f);
    if (g->begins_keys)
        return;
    device_fill(plan, g->dk.buffer, keys * plan->whole.dim_qk, 0.0f);
    device_fill(plan, g->dv.buffer, keys * plan->whole.dim_v, 0.0f);
}

static void backward_piece(clattn_mpi_plan *plan, const struct backward_task *task,
                           struct block *block, const struct piece *piece)
{
    const struct part *part = piece->part;
    const clattn_backward_tensors *of = task->of;
    const struct part_gradients g = part_gradients_of(plan, task, block, piece);
    const struct tensor q = piece_queries(piece, task->q);
    const struct tensor o = piece_queries(piece, wide_o(plan, task));
    const struct tensor d_o = piece_queries(piece, task->d_o);
    const struct tensor k = piece_keys(piece, block->k), v = piece_keys(piece, block->v);
    const size_t functions = function_gradients(plan);
    clattn_problem p = part_problem(plan, part);
    struct part_ints ints;

    p.q = layout_of(q);
    p.k = layout_of(k);
    p.v = layout_of(v);
    p.o = layout_of(o);
    p.d_o = layout_of(d_o);
    p.dq = layout_of(g.dq);
    p.dk = layout_of(g.dk);
    p.dv = layout_of(g.dv);
    const clattn_plan *made = part_plan(plan, &p);
    part_ints_make(plan, &task->lengths, part, &p, &ints);
    if (part->packed)
        clear_gradients(plan, piece, &g);
    const clattn_backward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = buffer_of(q),
        .k = buffer_of(k),
        .v = buffer_of(v),
        .o = buffer_of(o),
        .lse = buffer_of(g.lse),
        .d_o = buffer_of(d_o),
        .dq = buffer_of(g.dq),
        .dk = buffer_of(g.dk),
        .dv = buffer_of(g.dv),
        .dslopes =
            p.dslopes ? part_list(plan, POOL_SLOPES, plan->heads) : (clattn_buffer){.buffer = NULL},
        .dfunction = functions > 0 ? part_list(plan, POOL_FUNCTION, functions)
                                   : (clattn_buffer){.buffer = NULL},
        PIECE_OPERANDS(plan, piece, of, p, ints, made)};
    if (!plan->dry && fault_none(&plan->fault))
        fault_call(&plan->fault,
                   clattn_attention_backward(made, plan->queue, &tensors, 0, NULL, NULL),
                   "clattn_attention_backward");
    part_ints_release(&ints);
    add_gradients(plan, block, piece, &g);
    block->begun = true;
    if (p.dslopes)
        add_list(plan, POOL_SLOPES, plan->heads);
    if (functions > 0)
        add_list(plan, POOL_FUNCTION, functions);
    plan->times.parts++;
}

void backward_block(clattn_mpi_plan *plan, const struct backward_task *task, const int chunk,
                    struct block *block)
{
    const size_t count = block_parts(plan, &task->lengths, chunk, block);

    for (size_t n = 0; n < count && fault_none(&plan->fault); n++) {
        const struct piece piece = piece_of(plan, chunk, block, &plan->parts[n]);
        backward_piece(plan, task, block, &piece);
    }
}

void store_key_gradients(clattn_mpi_plan *plan, const struct backward_task *task,
                         const struct span rows, const struct tensor sums[2])
{
    const struct tensor to[2] = {task->dk, task->dv};
    struct span run;

    for (size_t row = rows.first; next_rows(plan, &task->lengths, true, rows, &row, &run);) {
        const struct tensor from_run[2] = {tensor_rows(sums[0], run.first - rows.first),
                                           tensor_rows(sums[1], run.first - rows.first)};
        const struct tensor to_run[2] = {tensor_rows(to[0], run.first),
                                         tensor_rows(to[1], run.first)};
        move_pair(plan, KERNEL_STORE_ROWS, run.count, from_run, to_run);
    }
}

/* dsinks of this rank's heads, summed over its rows in double precision. */
static void sum_sinks(clattn_mpi_plan *plan, const struct backward_task *task, float *dsinks)
{
    const size_t batches = place_batches(plan), rows = place_queries(plan), heads = plan->heads;
    const size_t count = batches * heads * rows;
    const clattn_buffer sinks = own_heads(plan, task->of->sinks);
    const cl_ulong sinks_at = sinks.offset;
    cl_mem shares = pool_take(plan, POOL_SINKS, count * sizeof(float));
    float *read = (float *)(void *)staging_take(plan, STAGING_SEND, count * sizeof(float));
    struct span range;

    device_fill(plan, shares, count, 0.0f);
    for (size_t row = 0;
         next_rows(plan, &task->lengths, false, (struct span){0, rows}, &row, &range);) {
        struct rows_call call;
        rows_begin(&call, plan, KERNEL_SINK_GRADIENTS,
                   (size_t[]){batches, heads, range.count, plan->whole.dim_v});
        rows_tensor(&call, tensor_rows(task->o, range.first));
        rows_tensor(&call, tensor_rows(task->d_o, range.first));
        rows_tensor(&call, tensor_rows(task->lse, range.first));
        rows_argument(&call, sizeof sinks.buffer, &sinks.buffer);
        rows_argument(&call, sizeof sinks_at, &sinks_at);
        rows_tensor(&call, tensor_rows(tensor_packed_at(shares, 0, heads, rows, 1), range.first));
        rows_run(&call);
    }
    device_read(plan, shares, 0, read, count * sizeof(float));
    for (size_t h = 0; h < heads && fault_none(&plan->fault); h++) {
        double sum = 0;
        for (size_t b = 0; b < batches; b++)
            for (size_t n = 0; n < rows; n++)
                sum += (double)read[(b * heads + h) * rows + n];
        dsinks[h] = (float)sum;
    }
}

void backward_end(clattn_mpi_plan *plan, const struct backward_task *task)
{
    const size_t dim = plan->whole.dim_qk, functions = function_gradients(plan);
    struct span rows;

    begin_dq(plan, false);
    for (size_t row = 0; next_rows(plan, &task->lengths, false,
                                   (struct span){0, place_queries(plan)}, &row, &rows);)
        device_move(
            plan, KERNEL_STORE_ROWS, (size_t[]){place_batches(plan), plan->heads, rows.count, dim},
            tensor_rows(place_sums(plan, dim), rows.first), tensor_rows(task->dq, rows.first));
    if (plan->whole.dslopes)
        device_read(plan, part_list(plan, POOL_SLOPES, plan->heads).buffer, 0,
                    plan->list_sums + plan->first_head, plan->heads * sizeof(float));
    if (plan->whole.dsinks)
        sum_sinks(plan, task, plan->list_sums + plan->whole.heads + plan->first_head);
    if (functions > 0)
        device_read(plan, part_list(plan, POOL_FUNCTION, functions).buffer, 0,
                    plan->list_sums + 2 * plan->whole.heads, functions * sizeof(float));
    device_finish(plan, NULL);
}
