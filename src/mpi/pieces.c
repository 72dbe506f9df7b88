/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/pieces.h"

struct piece piece_of(const clattn_mpi_plan *plan, const int chunk, const struct block *block,
                      const struct part *part)
{
    const struct span *chunks = plan->partition.place[plan->place].q;

    return (struct piece){.part = part,
                          .row = part->q.first - chunks[chunk].first + chunk_row(chunks, chunk),
                          .key_row = part->kv.first - block->keys.first,
                          .whole_q = plan->whole.total_q != 0,
                          .whole_kv = plan->whole.total_kv != 0};
}

struct tensor piece_queries(const struct piece *piece, const struct tensor all)
{
    return tensor_rows(piece->whole_q ? all : tensor_batches(all, piece->part->batch), piece->row);
}

struct tensor piece_keys(const struct piece *piece, const struct tensor all)
{
    return tensor_rows(piece->whole_kv ? all : tensor_batches(all, piece->part->batch),
                       piece->key_row);
}

clattn_buffer piece_pairs(const struct piece *piece, const clattn_buffer all,
                          const clattn_layout *layout)
{
    clattn_buffer part = all;

    part.offset += piece->part->batch * layout->stride[0] + piece->row * layout->stride[2] +
                   piece->part->kv.first * layout->stride[3];
    return part;
}

clattn_buffer own_heads(const clattn_mpi_plan *plan, const clattn_buffer all)
{
    clattn_buffer mine = all;

    if (all.buffer)
        mine.offset += plan->first_head;
    return mine;
}

clattn_dropout_place piece_dropout_place(const clattn_mpi_plan *plan, const struct part *part)
{
    const clattn_problem *whole = &plan->whole;

    if (whole->dropout <= 0.0f && !whole->score_function && !whole->mask_function)
        return (clattn_dropout_place){0};
    return (clattn_dropout_place){.query = (cl_uint)part->query,
                                  .key = (cl_uint)part->key,
                                  .batch = (cl_uint)part->batch,
                                  .head = (cl_uint)plan->first_head,
                                  .heads = (cl_uint)plan->whole.heads};
}

size_t block_parts(clattn_mpi_plan *plan, const struct lengths *lengths, const int chunk,
                   const struct block *block)
{
    if (!block->joined)
        return parts_of(&plan->whole, lengths, plan->partition.place[plan->place].q[chunk],
                        block->keys, plan->parts);
    plan->parts[0] = *block->joined;
    return 1;
}

size_t piece_query_batches(const struct piece *piece)
{
    return piece->whole_q ? 1 : piece->part->batches;
}

size_t piece_key_batches(const struct piece *piece)
{
    return piece->whole_kv ? 1 : piece->part->batches;
}

size_t place_batches(const clattn_mpi_plan *plan)
{
    return whole_batches(&plan->whole, false);
}

size_t place_queries(const clattn_mpi_plan *plan)
{
    return chunks_count(plan->partition.place[plan->place].q);
}

size_t place_rows(const clattn_mpi_plan *plan)
{
    return place_batches(plan) * plan->heads * place_queries(plan);
}

struct tensor packed_in_pool(clattn_mpi_plan *plan, const enum pool_id id, const size_t batches,
                             const size_t heads, const size_t rows, const size_t dim,
                             const size_t bytes)
{
    return tensor_packed_at(pool_take(plan, id, batches * heads * rows * dim * bytes), 0, heads,
                            rows, dim);
}

bool piece_has_all_queries(const clattn_mpi_plan *plan, const struct piece *piece)
{
    return piece->part->q.count == place_queries(plan) &&
           piece_query_batches(piece) == place_batches(plan);
}

struct tensor part_lse(clattn_mpi_plan *plan, const struct piece *piece)
{
    return packed_in_pool(plan, POOL_PART_LSE, piece_query_batches(piece), plan->heads,
                          piece->part->q.count, 1, sizeof(float));
}

struct tensor place_sums(clattn_mpi_plan *plan, const size_t dim)
{
    return packed_in_pool(plan, POOL_O, place_batches(plan), plan->heads, place_queries(plan), dim,
                          sizeof(float));
}

struct tensor place_lse(clattn_mpi_plan *plan)
{
    return packed_in_pool(plan, POOL_LSE, place_batches(plan), plan->heads, place_queries(plan), 1,
                          sizeof(float));
}

bool next_rows(const clattn_mpi_plan *plan, const struct lengths *lengths, const bool of_keys,
               const struct span limits, size_t *row, struct span *rows)
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

bool piece_begins_queries(clattn_mpi_plan *plan, const struct piece *piece)
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
