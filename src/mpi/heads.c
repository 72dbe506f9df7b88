/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/heads.h"

/* The rows of a member that are exchanged. */
static const struct span *rows_of_member(const clattn_mpi_plan *plan,
                                         const struct exchange *exchange, const int member)
{
    const int rank = plan->place * plan->partition.heads_ranks + member;

    return shard_chunks(&plan->partition.rank[rank], exchange->of_keys);
}

static size_t element_size(const clattn_mpi_plan *plan, const struct exchange *exchange)
{
    return exchange->floats ? sizeof(float) : element_bytes(plan);
}

/* Bytes that pass between a member with rows and one that computes some heads. */
static size_t message_bytes(const clattn_mpi_plan *plan, const struct exchange *exchange,
                            const int member)
{
    const size_t rows = chunks_count(rows_of_member(plan, exchange, member));

    return whole_pages(whole_batches(&plan->whole, exchange->of_keys) * exchange->heads * rows *
                       exchange->dim * element_size(plan, exchange));
}

/* The offsets of all members' messages: either of this rank's rows (`mine`), or of the member's own
 * rows. */
static size_t lay_out(clattn_mpi_plan *plan, const struct exchange *exchange, const bool mine,
                      int *counts, int *places)
{
    size_t sum = 0;

    for (int n = 0; n < plan->partition.heads_ranks; n++) {
        const size_t pages = message_bytes(plan, exchange, mine ? plan->member : n) / PAGE_BYTES;
        counts[n] = (int)pages;
        places[n] = (int)sum;
        sum += pages;
    }
    return sum * PAGE_BYTES;
}

/* Rows of a member in its message, packed. */
static struct tensor message_of(const clattn_mpi_plan *plan, const struct exchange *exchange,
                                const cl_mem buffer, const int page, const int member)
{
    return tensor_packed_at(buffer, (size_t)page * PAGE_BYTES / element_size(plan, exchange),
                            exchange->heads, chunks_count(rows_of_member(plan, exchange, member)),
                            exchange->dim);
}

/* Moves a member's rows, chunk by chunk, between its message and the tensor of the place. */
static void move_member(clattn_mpi_plan *plan, const struct exchange *exchange, const int member,
                        const struct tensor message, const struct tensor place, const bool in)
{
    const struct span *rows = rows_of_member(plan, exchange, member);
    const struct span *all = shard_chunks(&plan->partition.place[plan->place], exchange->of_keys);
    const size_t batches = whole_batches(&plan->whole, exchange->of_keys);
    const enum kernel kernel = exchange->floats ? KERNEL_COPY_FLOATS : KERNEL_COPY_ROWS;

    for (int n = 0; n < CHUNKS; n++) {
        const size_t size[4] = {batches, exchange->heads, rows[n].count, exchange->dim};
        const struct tensor a = tensor_rows(message, chunk_row(rows, n));
        const struct tensor b =
            tensor_rows(place, chunk_row(all, n) + rows[n].first - all[n].first);
        device_move(plan, kernel, size, in ? a : b, in ? b : a);
    }
}

/* Moves this rank's rows between its tensor and the messages; each message has the heads of another
 * member. */
static void move_own(clattn_mpi_plan *plan, const struct exchange *exchange, const cl_mem buffer,
                     const int *places, const struct tensor own, const bool in)
{
    const struct span *rows = rows_of_member(plan, exchange, plan->member);
    const size_t size[4] = {whole_batches(&plan->whole, exchange->of_keys), exchange->heads,
                            chunks_count(rows), exchange->dim};
    const enum kernel kernel = exchange->floats ? KERNEL_COPY_FLOATS : KERNEL_COPY_ROWS;

    for (int n = 0; n < plan->partition.heads_ranks; n++) {
        const struct tensor message = message_of(plan, exchange, buffer, places[n], plan->member);
        const struct tensor heads = tensor_heads(own, (size_t)n * exchange->heads);
        device_move(plan, kernel, size, in ? heads : message, in ? message : heads);
    }
}

void heads_exchange(clattn_mpi_plan *plan, const struct exchange *exchange, const struct tensor own,
                    const struct tensor place, const bool in)
{
    const int members = plan->partition.heads_ranks;
    int *const mine = plan->member_messages, *const theirs = mine + 2 * members;
    const size_t of_mine = lay_out(plan, exchange, true, mine, mine + members);
    const size_t of_theirs = lay_out(plan, exchange, false, theirs, theirs + members);
    const size_t bytes = of_mine > of_theirs ? of_mine : of_theirs;
    const size_t sent = in ? of_mine : of_theirs, received = in ? of_theirs : of_mine;
    int *const out = in ? mine : theirs, *const back = in ? theirs : mine;
    cl_mem packed = pool_take(plan, POOL_PACKED, bytes);
    /* Messages from this rank lie in the device's memory; arriving ones have memory of their own.
     * */
    cl_mem came = plan->shares_memory ? pool_take(plan, POOL_KEYS, bytes) : packed;

    if (in)
        move_own(plan, exchange, packed, mine + members, own, true);
    else
        for (int n = 0; n < members; n++)
            move_member(plan, exchange, n,
                        message_of(plan, exchange, packed, theirs[members + n], n), place, false);
    const void *from = staging_open(plan, STAGING_SEND, packed, sent, CL_MAP_READ);
    void *to = staging_open(plan, STAGING_RECEIVE, came, received, CL_MAP_WRITE_INVALIDATE_REGION);
    staging_fetch(plan, STAGING_SEND);
    if (!plan->dry) {
        const double begun = MPI_Wtime();
        MPI_Alltoallv(from, out, out + members, plan->page, to, back, back + members, plan->page,
                      plan->members);
        plan->times.waiting += MPI_Wtime() - begun;
        plan->times.bytes_sent += sent - (size_t)out[plan->member] * PAGE_BYTES;
    }
    staging_close(plan, STAGING_SEND, false);
    staging_close(plan, STAGING_RECEIVE, true);
    if (!in)
        move_own(plan, exchange, came, mine + members, own, false);
    else
        for (int n = 0; n < members; n++)
            move_member(plan, exchange, n, message_of(plan, exchange, came, theirs[members + n], n),
                        place, true);
    device_finish(plan, NULL);
}
