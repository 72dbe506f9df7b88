/* All-gather in rounds of consecutive keys: in each, every place has all keys of a range. */
#include "mpi/shards.h"

struct gather {
    clattn_mpi_plan *plan;
    struct tensor own[2]; /* k and v of this place */
    size_t round_rows;    /* keys of a round, but the last */
    int rounds;
    /* Of each place, what it sends and where that comes to lie: in pages, of the rounds at hand and on
     * their way; and of gradients in floats. */
    int *counts[3], *places[3];
    cl_mem packed;       /* what is on its way to or from the host */
    unsigned char *mine; /* what this place sends */
    unsigned char *all[2];
    cl_mem keys; /* k and v of the round */
};

enum { GRADIENTS = 2 };

static struct span round_of(const struct gather *gather, const int round)
{
    const size_t first = (size_t)round * gather->round_rows,
                 keys = whole_keys(&gather->plan->whole);

    return (struct span){first,
                         keys - first < gather->round_rows ? keys - first : gather->round_rows};
}

static struct span common(const struct span a, const struct span b)
{
    const size_t first = a.first > b.first ? a.first : b.first;
    const size_t end = span_end(a) < span_end(b) ? span_end(a) : span_end(b);

    return (struct span){first, end > first ? end - first : 0};
}

/* Rows of a round that a place has of its chunks, together. */
static size_t rows_in_round(const struct gather *gather, const int place, const struct span round)
{
    const struct span *chunks = gather->plan->partition.place[place].kv;

    return common(chunks[0], round).count + common(chunks[1], round).count;
}

/* In pages of messages; of gradients in floats. */
static size_t place_messages(struct gather *gather, const struct span round, const int slot)
{
    const bool of_gradients = slot == GRADIENTS;
    const clattn_mpi_plan *plan = gather->plan;
    size_t sum = 0;

    for (int n = 0; n < plan->partition.places; n++) {
        const size_t rows = rows_in_round(gather, n, round);
        const size_t count = of_gradients ? gradients_bytes(plan, rows) / sizeof(float)
                                          : whole_pages(keys_bytes(plan, rows)) / PAGE_BYTES;
        gather->counts[slot][n] = (int)count;
        gather->places[slot][n] = (int)sum;
        sum += count;
    }
    return sum;
}

static void gather_open(struct gather *gather, clattn_mpi_plan *plan, const struct tensor k,
                        const struct tensor v)
{
    const size_t keys = whole_keys(&plan->whole), places = (size_t)plan->partition.places;
    const size_t each = keys_bytes(plan, 1) ? plan->gather_bytes / keys_bytes(plan, 1) : keys;
    const size_t most = each < 16 ? 16 : each / 16 * 16;
    const size_t bytes = keys_bytes(plan, most < keys ? most : keys) + (places + 1) * PAGE_BYTES;

    *gather = (struct gather){.plan = plan,
                              .own = {k, v},
                              .round_rows = most,
                              .rounds = (int)((keys + most - 1) / most),
                              .packed = pool_take(plan, POOL_PACKED, 2 * bytes),
                              .mine = staging_take(plan, STAGING_SEND, bytes),
                              .all = {staging_take(plan, STAGING_KEYS, bytes),
                                      staging_take(plan, STAGING_KEYS_NEXT, bytes)},
                              .keys = pool_take(plan, POOL_KEYS, bytes)};
    for (int n = 0; n < 3; n++) {
        gather->counts[n] = plan->messages + (size_t)(2 * n) * places;
        gather->places[n] = gather->counts[n] + places;
    }
}

/* Whether any place sees a key of the round. */
static bool round_is_seen(const struct gather *gather, const struct lengths *lengths,
                          const struct span round)
{
    const clattn_mpi_plan *plan = gather->plan;
    const struct span queries = {0, whole_queries(&plan->whole)};

    return parts_of(&plan->whole, lengths, queries, round, plan->parts) > 0;
}

/* Moves between the rows of a round that a place has, packed, and all of the round's. */
static void move_rows(struct gather *gather, const enum kernel kernel, const int place,
                      const struct span round, const struct tensor packed[2],
                      const struct tensor all[2], const bool to_all)
{
    const struct span *chunks = gather->plan->partition.place[place].kv;
    size_t row = 0;

    for (int n = 0; n < CHUNKS; n++) {
        const struct span rows = common(chunks[n], round);
        const struct tensor of_place[2] = {tensor_rows(packed[0], row),
                                           tensor_rows(packed[1], row)};
        const struct tensor of_round[2] = {tensor_rows(all[0], rows.first - round.first),
                                           tensor_rows(all[1], rows.first - round.first)};
        if (rows.count > 0)
            move_pair(gather->plan, kernel, rows.count, to_all ? of_place : of_round,
                      to_all ? of_round : of_place);
        row += rows.count;
    }
}

/* Begins a round's messages. */
static void begin_round(struct gather *gather, const int round, const int slot,
                        MPI_Request *request)
{
    clattn_mpi_plan *plan = gather->plan;
    const struct span range = round_of(gather, round);
    const struct span *chunks = plan->partition.place[plan->place].kv;
    const size_t mine = rows_in_round(gather, plan->place, range);
    struct tensor packed[2], own[2];

    packed_pair(plan, gather->packed, 0, mine, packed);
    for (int n = 0, row = 0; n < CHUNKS; n++) {
        const struct span rows = common(chunks[n], range);
        const size_t at = chunk_row(chunks, n) + rows.first - chunks[n].first;
        const struct tensor to[2] = {tensor_rows(packed[0], (size_t)row),
                                     tensor_rows(packed[1], (size_t)row)};
        own[0] = tensor_rows(gather->own[0], at);
        own[1] = tensor_rows(gather->own[1], at);
        if (rows.count > 0)
            move_pair(plan, KERNEL_COPY_ROWS, rows.count, own, to);
        row += (int)rows.count;
    }
    device_read(plan, gather->packed, 0, gather->mine, keys_bytes(plan, mine));
    *request = MPI_REQUEST_NULL;
    if (plan->dry)
        return;
    (void)place_messages(gather, range, slot);
    MPI_Iallgatherv(gather->mine, gather->counts[slot][plan->place], plan->page, gather->all[slot],
                    gather->counts[slot], gather->places[slot], plan->page, plan->ring, request);
    plan->times.bytes_sent += (size_t)gather->counts[slot][plan->place] * PAGE_BYTES *
                              (size_t)(plan->partition.places - 1);
}

/* The round's keys, in their order, from what came. */
static void unpack_round(struct gather *gather, const int round, const int slot,
                         struct tensor all[2])
{
    clattn_mpi_plan *plan = gather->plan;
    const struct span range = round_of(gather, round);
    const int last = plan->partition.places - 1;
    const size_t pages =
        plan->dry ? 0 : (size_t)(gather->places[slot][last] + gather->counts[slot][last]);

    packed_pair(plan, gather->keys, 0, range.count, all);
    device_write(plan, gather->packed, 0, gather->all[slot], pages * PAGE_BYTES);
    for (int n = 0; n < plan->partition.places; n++) {
        struct tensor packed[2];
        packed_pair(plan, gather->packed,
                    (size_t)gather->places[slot][n] * PAGE_BYTES / element_bytes(plan),
                    rows_in_round(gather, n, range), packed);
        move_rows(gather, KERNEL_COPY_ROWS, n, range, packed, all, true);
    }
}

/* The next round that is seen, from one on; gather->rounds if there is none. */
static int next_round(const struct gather *gather, const struct lengths *lengths, int round)
{
    while (round < gather->rounds && !round_is_seen(gather, lengths, round_of(gather, round)))
        round++;
    return round;
}

/* ---- forward ---------------------------------------------------------------------------------- */

void gather_forward(clattn_mpi_plan *plan, const struct forward_task *task)
{
    struct gather gather;
    MPI_Request request = MPI_REQUEST_NULL;

    gather_open(&gather, plan, task->k, task->v);
    int round = next_round(&gather, &task->lengths, 0);
    if (round < gather.rounds)
        begin_round(&gather, round, 0, &request);
    for (int slot = 0; round < gather.rounds; slot = !slot) {
        const int next = next_round(&gather, &task->lengths, round + 1);
        struct block block = {.keys = round_of(&gather, round)};
        MPI_Request coming = MPI_REQUEST_NULL;
        struct tensor all[2];
        wait_for(plan, &request, 1);
        if (next < gather.rounds)
            begin_round(&gather, next, !slot, &coming);
        unpack_round(&gather, round, slot, all);
        block.k = all[0];
        block.v = all[1];
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            forward_block(plan, task, chunk, &block);
        device_finish(plan, &coming, 1);
        request = coming;
        round = next;
    }
}

/* ---- backward --------------------------------------------------------------------------------- */

/* Sums the round's gradients over places; each has those of its own keys. */
static void scatter_gradients(struct gather *gather, const struct backward_task *task,
                              const int round, const struct tensor sums[2])
{
    clattn_mpi_plan *plan = gather->plan;
    const struct span range = round_of(gather, round);
    const struct span *chunks = plan->partition.place[plan->place].kv;
    const size_t mine = rows_in_round(gather, plan->place, range);
    const size_t bytes = place_messages(gather, range, GRADIENTS) * sizeof(float);
    cl_mem packed = pool_take(plan, POOL_PACKED, bytes);
    unsigned char *all = staging_take(plan, STAGING_GRADIENTS, bytes);
    unsigned char *own =
        staging_take(plan, STAGING_GRADIENTS_OWN, gradients_bytes(plan, range.count));
    struct tensor of_place[2];

    for (int n = 0; n < plan->partition.places; n++) {
        packed_pair(plan, packed, (size_t)gather->places[GRADIENTS][n],
                    rows_in_round(gather, n, range), of_place);
        move_rows(gather, KERNEL_COPY_FLOATS, n, range, of_place, sums, false);
    }
    device_read(plan, packed, 0, all, bytes);
    if (!plan->dry) {
        const double begun = MPI_Wtime();
        MPI_Reduce_scatter(all, own, gather->counts[GRADIENTS], MPI_FLOAT, MPI_SUM, plan->ring);
        plan->times.waiting += MPI_Wtime() - begun;
        plan->times.bytes_sent += bytes - gradients_bytes(plan, mine);
    }
    device_write(plan, packed, 0, own, gradients_bytes(plan, mine));
    packed_pair(plan, packed, 0, mine, of_place);
    for (size_t n = 0, row = 0; n < CHUNKS; n++) {
        const struct span rows = common(chunks[n], range);
        const struct tensor from[2] = {tensor_rows(of_place[0], row),
                                       tensor_rows(of_place[1], row)};
        const size_t at = chunk_row(chunks, (int)n) + rows.first - chunks[n].first;
        if (rows.count > 0)
            store_key_gradients(plan, task, (struct span){at, rows.count}, from);
        row += rows.count;
    }
    device_finish(plan, NULL, 0); /* packed is used again */
}

void gather_backward(clattn_mpi_plan *plan, const struct backward_task *task)
{
    struct gather gather;
    MPI_Request request = MPI_REQUEST_NULL;

    gather_open(&gather, plan, task->k, task->v);
    if (gather.rounds > 0)
        begin_round(&gather, 0, 0, &request);
    for (int round = 0, slot = 0; round < gather.rounds; round++, slot = !slot) {
        const struct span range = round_of(&gather, round);
        const size_t floats = gradients_bytes(plan, range.count) / sizeof(float);
        cl_mem gradients = pool_take(plan, POOL_GRADIENTS, floats * sizeof(float));
        struct block block = {.keys = range};
        MPI_Request coming = MPI_REQUEST_NULL;
        struct tensor all[2], sums[2];
        wait_for(plan, &request, 1);
        if (round + 1 < gather.rounds)
            begin_round(&gather, round + 1, !slot, &coming);
        unpack_round(&gather, round, slot, all);
        packed_pair(plan, gradients, 0, range.count, sums);
        device_fill(plan, gradients, floats, 0.0f);
        block.k = all[0];
        block.v = all[1];
        block.dk = sums[0];
        block.dv = sums[1];
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            backward_block(plan, task, chunk, &block);
        device_finish(plan, &coming, 1);
        scatter_gradients(&gather, task, round, sums);
        request = coming;
    }
}
