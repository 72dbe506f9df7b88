/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/part_plan.h"
#include "mpi/rows.h"
#include "mpi/shards.h"

#include <math.h>
#include <string.h>

/* A part with the tensors of its rectangle. */
struct piece {
    const struct part *part;
    size_t row;     /* the part's first row among the place's queries */
    size_t key_row; /* the part's first row in the block of keys */
    /* packed batch: one tensor has all sequences' rows, total_q or total_kv */
    bool whole_q, whole_kv;
};

static struct piece piece_of(const clattn_mpi_plan *plan, const int chunk,
                             const struct block *block, const struct part *part)
{
    const struct span *chunks = plan->partition.place[plan->place].q;

    return (struct piece){.part = part,
                          .row = part->q.first - chunks[chunk].first + chunk_row(chunks, chunk),
                          .key_row = part->kv.first - block->keys.first,
                          .whole_q = plan->whole.total_q != 0,
                          .whole_kv = plan->whole.total_kv != 0};
}

static struct tensor queries_of(const struct piece *piece, const struct tensor all)
{
    return tensor_rows(piece->whole_q ? all : tensor_batches(all, piece->part->batch), piece->row);
}

static struct tensor keys_of(const struct piece *piece, const struct tensor all)
{
    return tensor_rows(piece->whole_kv ? all : tensor_batches(all, piece->part->batch),
                       piece->key_row);
}

/* Elements of a bias or mask whose rows are those of the shard, one behind the other. */
static clattn_buffer pairs_of(const struct piece *piece, const clattn_buffer all,
                              const clattn_layout *layout)
{
    clattn_buffer part = all;

    part.offset += piece->part->batch * layout->stride[0] + piece->row * layout->stride[2] +
                   piece->part->kv.first * layout->stride[3];
    return part;
}

static clattn_buffer heads_of(const clattn_mpi_plan *plan, const clattn_buffer all)
{
    clattn_buffer mine = all;

    if (all.buffer)
        mine.offset += plan->first_head;
    return mine;
}

static clattn_dropout_place place_of(const clattn_mpi_plan *plan, const struct part *part)
{
    if (plan->whole.dropout <= 0.0f)
        return (clattn_dropout_place){0};
    return (clattn_dropout_place){.query = (cl_uint)part->q.first,
                                  .key = (cl_uint)part->kv.first,
                                  .batch = (cl_uint)part->batch,
                                  .head = (cl_uint)plan->first_head,
                                  .heads = (cl_uint)plan->whole.heads};
}

/* Writes the parts of a block to plan->parts and returns how many there are. */
static size_t block_parts(clattn_mpi_plan *plan, const struct lengths *lengths, const int chunk,
                          const struct block *block)
{
    if (!block->joined)
        return parts_of(&plan->whole, lengths, plan->partition.place[plan->place].q[chunk],
                        block->keys, plan->parts);
    plan->parts[0] = *block->joined;
    return 1;
}

/* Batches of a part's tensors of queries and of keys. */
static size_t query_batches(const struct piece *piece)
{
    return piece->whole_q ? 1 : piece->part->batches;
}

static size_t key_batches(const struct piece *piece)
{
    return piece->whole_kv ? 1 : piece->part->batches;
}

/* Tensors of all of the place's queries are packed; of packed sequences of one batch. */
static size_t place_batches(const clattn_mpi_plan *plan)
{
    return whole_batches(&plan->whole, false);
}

static size_t place_queries(const clattn_mpi_plan *plan)
{
    return chunks_count(plan->partition.place[plan->place].q);
}

/* Rows of the place's queries, over all heads that this rank computes. */
static size_t place_rows(const clattn_mpi_plan *plan)
{
    return place_batches(plan) * plan->heads * place_queries(plan);
}

static struct tensor packed_in_pool(clattn_mpi_plan *plan, const enum pool_id id,
                                    const size_t batches, const size_t heads, const size_t rows,
                                    const size_t dim, const size_t bytes)
{
    return tensor_packed_at(pool_take(plan, id, batches * heads * rows * dim * bytes), 0, heads,
                            rows, dim);
}

/* Whether a piece has all of the place's queries, so that its lse, which has no steps of its own, is theirs. */
static bool has_all_queries(const clattn_mpi_plan *plan, const struct piece *piece)
{
    return piece->part->q.count == place_queries(plan) &&
           query_batches(piece) == place_batches(plan);
}

static struct tensor part_lse(clattn_mpi_plan *plan, const struct piece *piece)
{
    return packed_in_pool(plan, POOL_PART_LSE, query_batches(piece), plan->heads,
                          piece->part->q.count, 1, sizeof(float));
}

/* f32 sums of the place's queries, of o or dq. */
static struct tensor sums(clattn_mpi_plan *plan, const size_t dim)
{
    return packed_in_pool(plan, POOL_O, place_batches(plan), plan->heads, place_queries(plan), dim,
                          sizeof(float));
}

static struct tensor sums_lse(clattn_mpi_plan *plan)
{
    return packed_in_pool(plan, POOL_LSE, place_batches(plan), plan->heads, place_queries(plan), 1,
                          sizeof(float));
}

/* Rows of the place, of `limits`, that belong to a sequence, range by range: other rows of packed batches
 * keep what they hold. Returns whether there is a further one, from *row on. */
static bool next_rows(const clattn_mpi_plan *plan, const struct lengths *lengths,
                      const bool of_keys, const struct span limits, size_t *row, struct span *rows)
{
    const struct shard *shard = &plan->partition.place[plan->place];
    const size_t begin = (of_keys ? shard->kv : shard->q)[0].first; /* packed: of the only chunk */
    struct lengths starts = *lengths;

    starts.q_lengths = starts.kv_lengths = NULL; /* rows that are not in use are written as well */
    *rows = (struct span){*row, span_end(limits) - *row};
    if (*row >= span_end(limits))
        return false;
    if (of_keys ? plan->whole.total_kv : plan->whole.total_q) {
        const size_t from = begin + *row, end = begin + span_end(limits);
        struct span best = {end, 0};
        for (size_t b = 0; b < plan->whole.batch; b++) {
            const struct span sequence = of_keys ? sequence_keys(&plan->whole, &starts, b)
                                                 : sequence_queries(&plan->whole, &starts, b);
            const size_t last = span_end(sequence) < end ? span_end(sequence) : end;
            const size_t first = sequence.first > from ? sequence.first : from;
            if (first < last && first < best.first)
                best = (struct span){first, last - first};
        }
        *rows = (struct span){best.first - begin, best.count};
    }
    *row = span_end(*rows);
    return rows->count > 0;
}

/* Whether the piece is the first of its queries in this execution, whose result need not be joined with another. */
static bool begins_queries(clattn_mpi_plan *plan, const struct piece *piece)
{
    const struct span *chunks = plan->partition.place[plan->place].q;
    const size_t end = piece->row + piece->part->q.count;
    bool begins = true;

    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const size_t row = chunk_row(chunks, chunk);
        if (row < end && piece->row < row + chunks[chunk].count) {
            begins = begins && !plan->begun[chunk];
            plan->begun[chunk] = true;
        }
    }
    return begins;
}

/* ---- forward ---------------------------------------------------------------------------------- */

void forward_begin(clattn_mpi_plan *plan, const struct forward_task *task)
{
    plan->state_o = state_in_o(&plan->whole, plan->mode == CLATTN_MPI_SPLIT_KV)
                        ? task->o
                        : sums(plan, plan->whole.dim_v);
    memset(plan->begun, 0, sizeof plan->begun);
    device_fill(plan, sums_lse(plan).buffer, place_rows(plan), -HUGE_VALF);
}

static void forward_piece(clattn_mpi_plan *plan, const struct forward_task *task,
                          const struct block *block, const struct piece *piece)
{
    const struct part *part = piece->part;
    const clattn_forward_tensors *of = task->of;
    const struct tensor q = queries_of(piece, task->q), k = keys_of(piece, block->k);
    const struct tensor v = keys_of(piece, block->v);
    const size_t batches = query_batches(piece), heads = plan->heads, rows = part->q.count;
    const size_t dim = plan->whole.dim_v;
    const struct tensor all_o = queries_of(piece, plan->state_o);
    const struct tensor all_lse = queries_of(piece, sums_lse(plan));
    const bool begins = begins_queries(plan, piece);
    const struct tensor o =
        begins ? all_o : packed_in_pool(plan, POOL_PART_O, batches, heads, rows, dim, 4);
    const bool is_all = begins && has_all_queries(plan, piece);
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
    const clattn_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = buffer_of(q),
        .k = buffer_of(k),
        .v = buffer_of(v),
        .o = buffer_of(o),
        .lse = buffer_of(lse),
        .bias = p.bias ? pairs_of(piece, of->bias, &p.bias_layout) : of->bias,
        .mask = p.mask ? pairs_of(piece, of->mask, &p.mask_layout) : of->mask,
        .slopes = heads_of(plan, of->slopes),
        .q_lengths.buffer = ints.at[0],
        .kv_lengths.buffer = ints.at[1],
        .q_starts.buffer = ints.at[2],
        .kv_starts.buffer = ints.at[3],
        .workspace = part_workspace(plan, made),
        .dropout_seed = of->dropout_seed,
        .dropout_offset = of->dropout_offset,
        .dropout_place = place_of(plan, part)};
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

    device_read(plan, sums(plan, plan->whole.dim_v).buffer, 0, state, of_o);
    device_read(plan, sums_lse(plan).buffer, 0, (unsigned char *)state + of_o,
                place_rows(plan) * sizeof(float));
}

void state_merge(clattn_mpi_plan *plan, const void *state, const bool first)
{
    const size_t rows = place_rows(plan), dim = plan->whole.dim_v;
    const size_t of_o = rows * dim * sizeof(float);
    const unsigned char *lse = (const unsigned char *)state + of_o;
    cl_mem o = first ? sums(plan, dim).buffer : pool_take(plan, POOL_PART_O, of_o);
    cl_mem o_lse =
        first ? sums_lse(plan).buffer : pool_take(plan, POOL_PART_LSE, rows * sizeof(float));
    struct rows_call call;

    device_write(plan, o, 0, state, of_o);
    device_write(plan, o_lse, 0, lse, rows * sizeof(float));
    if (first)
        return;
    rows_begin(&call, plan, KERNEL_MERGE_STATE,
               (size_t[]){place_batches(plan), plan->heads, place_queries(plan), dim});
    rows_tensor(&call, tensor_packed_at(o, 0, plan->heads, place_queries(plan), dim));
    rows_tensor(&call, tensor_packed_at(o_lse, 0, plan->heads, place_queries(plan), 1));
    rows_tensor(&call, sums(plan, dim));
    rows_tensor(&call, sums_lse(plan));
    rows_run(&call);
}

void forward_end(clattn_mpi_plan *plan, const struct forward_task *task)
{
    const size_t dim = plan->whole.dim_v;
    const clattn_buffer sinks = heads_of(plan, task->of->sinks);
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
        rows_tensor(&call, tensor_rows(sums_lse(plan), rows.first));
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

/* ---- backward --------------------------------------------------------------------------------- */

/* The place's o in f32: parts, whose gradients are f32 to be added, read it so. */
static struct tensor wide_o(clattn_mpi_plan *plan, const struct backward_task *task)
{
    return plan->whole.dtype == CLATTN_F32
               ? task->o
               : packed_in_pool(plan, POOL_WIDE_O, place_batches(plan), plan->heads,
                                place_queries(plan), plan->whole.dim_v, sizeof(float));
}

void backward_begin(clattn_mpi_plan *plan, const struct backward_task *task)
{
    if (plan->whole.dtype != CLATTN_F32)
        device_move(
            plan, KERNEL_WIDEN_ROWS,
            (size_t[]){place_batches(plan), plan->heads, place_queries(plan), plan->whole.dim_v},
            task->o, wide_o(plan, task));
    memset(plan->begun, 0, sizeof plan->begun);
    plan->has_dq = false;
    (void)sums(plan, plan->whole.dim_qk);
    if (plan->whole.dslopes)
        device_fill(plan, pool_take(plan, POOL_SLOPES, 2 * plan->heads * sizeof(float)),
                    2 * plan->heads, 0.0f);
}

/* dq begins as zero, unless the first piece writes all of it. */
static void begin_dq(clattn_mpi_plan *plan, const bool writes_all)
{
    if (!plan->has_dq && !writes_all)
        device_fill(plan, sums(plan, plan->whole.dim_qk).buffer,
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
    const size_t batches = query_batches(piece), rows = piece->part->q.count;
    const size_t keys = piece->part->kv.count, bytes = sizeof(float);
    const bool is_all = has_all_queries(plan, piece);
    const size_t dims[2] = {plan->whole.dim_qk, plan->whole.dim_v};
    struct part_gradients g = {.dq = queries_of(piece, sums(plan, dims[0])),
                               .dk = keys_of(piece, block->dk),
                               .dv = keys_of(piece, block->dv),
                               .lse = is_all ? task->lse : part_lse(plan, piece),
                               .begins_queries = begins_queries(plan, piece),
                               .begins_keys = !block->begun};

    begin_dq(plan, is_all);
    if (!g.begins_queries)
        g.dq = packed_in_pool(plan, POOL_PART_O, batches, plan->heads, rows, dims[0], bytes);
    if (!g.begins_keys) {
        g.dk = packed_in_pool(plan, POOL_PART_DK, key_batches(piece), plan->kv_heads, keys, dims[0],
                              bytes);
        g.dv = packed_in_pool(plan, POOL_PART_DV, key_batches(piece), plan->kv_heads, keys, dims[1],
                              bytes);
    }
    if (!is_all)
        device_move(plan, KERNEL_COPY_FLOATS, (size_t[]){batches, plan->heads, rows, 1},
                    queries_of(piece, task->lse), g.lse);
    return g;
}

/* Adds a part's gradients to those of the place and of the block, unless they were written
 * there. */
static void add_gradients(clattn_mpi_plan *plan, const struct block *block,
                          const struct piece *piece, const struct part_gradients *g)
{
    const size_t dims[2] = {plan->whole.dim_qk, plan->whole.dim_v};
    const size_t batches = key_batches(piece), heads = plan->kv_heads;
    const size_t keys = piece->part->kv.count;
    const struct move moves[2] = {
        {{batches, heads, keys, dims[0]}, g->dk, keys_of(piece, block->dk)},
        {{batches, heads, keys, dims[1]}, g->dv, keys_of(piece, block->dv)}};

    if (!g->begins_queries)
        device_move(plan, KERNEL_ADD_FLOATS,
                    (size_t[]){query_batches(piece), plan->heads, piece->part->q.count, dims[0]},
                    g->dq, queries_of(piece, sums(plan, dims[0])));
    if (!g->begins_keys)
        device_move_both(plan, KERNEL_ADD_FLOATS, moves);
}

/* Rows of packed batches that are no sequence's are not written by a part, and add nothing. */
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

/* A part's dslopes, floats even in f16, and their sum, which lies before them. */
static clattn_buffer part_slopes(clattn_mpi_plan *plan)
{
    return (clattn_buffer){.buffer = pool_take(plan, POOL_SLOPES, 2 * plan->heads * sizeof(float)),
                           .offset = plan->heads};
}

static void add_slopes(clattn_mpi_plan *plan)
{
    const clattn_buffer slopes = part_slopes(plan);
    const struct tensor sum = tensor_packed_at(slopes.buffer, 0, 1, 1, plan->heads);
    const struct tensor part = tensor_packed_at(slopes.buffer, plan->heads, 1, 1, plan->heads);

    device_move(plan, KERNEL_ADD_FLOATS, (size_t[]){1, 1, 1, plan->heads}, part, sum);
}

static void backward_piece(clattn_mpi_plan *plan, const struct backward_task *task,
                           struct block *block, const struct piece *piece)
{
    const struct part *part = piece->part;
    const clattn_backward_tensors *of = task->of;
    const struct part_gradients g = part_gradients_of(plan, task, block, piece);
    const struct tensor q = queries_of(piece, task->q);
    const struct tensor o = queries_of(piece, wide_o(plan, task));
    const struct tensor d_o = queries_of(piece, task->d_o);
    const struct tensor k = keys_of(piece, block->k), v = keys_of(piece, block->v);
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
        .bias = p.bias ? pairs_of(piece, of->bias, &p.bias_layout) : of->bias,
        .mask = p.mask ? pairs_of(piece, of->mask, &p.mask_layout) : of->mask,
        .slopes = heads_of(plan, of->slopes),
        .dslopes = p.dslopes ? part_slopes(plan) : (clattn_buffer){.buffer = NULL},
        .q_lengths.buffer = ints.at[0],
        .kv_lengths.buffer = ints.at[1],
        .q_starts.buffer = ints.at[2],
        .kv_starts.buffer = ints.at[3],
        .workspace = part_workspace(plan, made),
        .dropout_seed = of->dropout_seed,
        .dropout_offset = of->dropout_offset,
        .dropout_place = place_of(plan, part)};
    if (!plan->dry && fault_none(&plan->fault))
        fault_call(&plan->fault,
                   clattn_attention_backward(made, plan->queue, &tensors, 0, NULL, NULL),
                   "clattn_attention_backward");
    part_ints_release(&ints);
    add_gradients(plan, block, piece, &g);
    block->begun = true;
    if (p.dslopes)
        add_slopes(plan);
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
    const clattn_buffer sinks = heads_of(plan, task->of->sinks);
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

void backward_end(clattn_mpi_plan *plan, const struct backward_task *task, float *dslopes,
                  float *dsinks)
{
    const size_t dim = plan->whole.dim_qk;
    struct span rows;

    begin_dq(plan, false);
    for (size_t row = 0; next_rows(plan, &task->lengths, false,
                                   (struct span){0, place_queries(plan)}, &row, &rows);)
        device_move(plan, KERNEL_STORE_ROWS,
                    (size_t[]){place_batches(plan), plan->heads, rows.count, dim},
                    tensor_rows(sums(plan, dim), rows.first), tensor_rows(task->dq, rows.first));
    if (plan->whole.dslopes)
        device_read(plan, part_slopes(plan).buffer, 0, dslopes, plan->heads * sizeof(float));
    if (plan->whole.dsinks)
        sum_sinks(plan, task, dsinks);
    device_finish(plan, NULL);
}
