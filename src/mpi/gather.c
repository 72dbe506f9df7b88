/* SPDX-License-Identifier: Apache-2.0 */
/* All-gather in rounds of consecutive keys: in each, every place has all keys of a range. */
#include "mpi/partition/rounds.h"
#include "mpi/shards.h"

#include <string.h>

/* Keys of a round lie row by row: of a row first k, then v, of all batches and heads, so that what a place has of it is in one
 * piece and comes to where it belongs; gradients in f32 likewise. */
struct gather {
    clattn_mpi_plan *plan;
    struct tensor own[2]; /* k and v of this place */
    size_t round_rows;    /* keys per round; the last round may have fewer */
    int rounds;
    MPI_Datatype unit; /* the unit in which messages are counted */
    size_t unit_bytes;
    cl_mem keys[2]; /* keys and values of the present round, and of the next one */
    /* backward: gradients of the present round, and of the one before, which are being sent */
    cl_mem sums[2];
    cl_mem came; /* contributions of other places to this place's gradients */
    int turn;    /* the number of such contributions that are exchanged at a time */
    struct messages messages;
};

/* Indices of requests in messages, each for one chunk after another. */
enum { KEYS_RECEIVED, GRADIENTS_RECEIVED = CHUNKS };

static struct span round_of(const struct gather *gather, const int round)
{
    const size_t first = (size_t)round * gather->round_rows,
                 keys = whole_keys(&gather->plan->whole);

    return (struct span){first,
                         keys - first < gather->round_rows ? keys - first : gather->round_rows};
}

/* The rows of a round that one of a place's chunks holds. */
static struct span rows_of(const struct gather *gather, const int place, const int chunk,
                           const struct span round)
{
    return span_common(gather->plan->partition.place[place].kv[chunk], round);
}

/* The row of the caller's tensors that holds a row of the whole problem. */
static size_t own_row(const struct gather *gather, const int chunk, const struct span rows)
{
    const clattn_mpi_plan *plan = gather->plan;
    const struct span *chunks = plan->partition.place[plan->place].kv;

    return chunk_row(chunks, chunk) + rows.first - chunks[chunk].first;
}

/* The contents of a row. */
enum of_row { KEYS, GRADIENTS };

static size_t row_bytes(const struct gather *gather, const enum of_row of)
{
    const clattn_mpi_plan *plan = gather->plan;
    const size_t bytes = of == KEYS ? keys_bytes(plan, 1) : gradients_bytes(plan, 1);

    return step_of_rows(bytes, plan->whole.operation);
}

/* k and v, or dk and dv, that lie row by row, from a row on. */
static void pair_by_rows(const struct gather *gather, const cl_mem buffer, const enum of_row of,
                         const size_t row, struct tensor pair[2])
{
    const clattn_mpi_plan *plan = gather->plan;
    const size_t batches = whole_batches(&plan->whole, true), heads = plan->kv_heads;
    const size_t dims[2] = {plan->whole.dim_qk, plan->whole.dim_v};
    const size_t step = row_bytes(gather, of) / (of == KEYS ? element_bytes(plan) : sizeof(float));

    for (int n = 0; n < 2; n++)
        pair[n] = (struct tensor){.buffer = buffer,
                                  .offset = row * step + (n ? batches * heads * dims[0] : 0),
                                  .stride = {heads * dims[n], dims[n], step}};
}

static size_t common_divisor(const size_t a, const size_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static void gather_open(struct gather *gather, clattn_mpi_plan *plan, const struct tensor k,
                        const struct tensor v)
{
    const size_t keys = whole_keys(&plan->whole);

    *gather = (struct gather){.plan = plan, .own = {k, v}, .messages = no_messages()};
    const size_t row = row_bytes(gather, KEYS);
    const size_t most = rows_of_round(keys, row, plan->gather_bytes, plan->partition.zigzag);
    const size_t bytes = (most < keys ? most : keys) * row;
    gather->round_rows = most;
    gather->rounds = (int)((keys + most - 1) / most);
    gather->unit_bytes =
        common_divisor(PAGE_BYTES, common_divisor(row, row_bytes(gather, GRADIENTS)));
    for (int slot = 0; slot < 2; slot++) {
        gather->keys[slot] = pool_take(plan, POOL_KEYS + slot, bytes);
        (void)staging_take(plan, STAGING_KEYS + slot, bytes);
    }
    MPI_Type_contiguous((int)gather->unit_bytes, MPI_BYTE, &gather->unit);
    MPI_Type_commit(&gather->unit);
}

static void gather_close(struct gather *gather)
{
    MPI_Type_free(&gather->unit);
}

/* Returns whether any rank sees a key of the round. */
static bool round_is_seen(const struct gather *gather, const struct lengths *lengths,
                          const struct span round)
{
    const clattn_mpi_plan *plan = gather->plan;
    const struct span queries = {0, whole_queries(&plan->whole)};

    return parts_of(&plan->whole, lengths, queries, round, plan->parts) > 0;
}

/* ---- keys ------------------------------------------------------------------------------------- */

/* Packs this place's keys of a round at their places in it. */
static void pack_own(struct gather *gather, const struct span range, const cl_mem keys)
{
    clattn_mpi_plan *plan = gather->plan;

    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const struct span rows = rows_of(gather, plan->place, chunk, range);
        const size_t at = own_row(gather, chunk, rows);
        const struct tensor from[2] = {tensor_rows(gather->own[0], at),
                                       tensor_rows(gather->own[1], at)};
        struct tensor to[2];
        if (rows.count == 0)
            continue;
        pair_by_rows(gather, keys, KEYS, rows.first - range.first, to);
        move_pair(plan, KERNEL_COPY_ROWS, rows.count, from, to);
    }
}

/* Begins a round's messages. */
static void begin_round(struct gather *gather, const int round, const int slot)
{
    clattn_mpi_plan *plan = gather->plan;
    const enum staging_id staging = (enum staging_id)(STAGING_KEYS + slot);
    const struct span range = round_of(gather, round);
    const int places = plan->partition.places;
    const size_t row_units = row_bytes(gather, KEYS) / gather->unit_bytes;

    pack_own(gather, range, gather->keys[slot]);
    unsigned char *memory =
        staging_open(plan, staging, gather->keys[slot], range.count * row_bytes(gather, KEYS),
                     CL_MAP_READ | CL_MAP_WRITE);
    for (int chunk = 0; chunk < CHUNKS && !plan->dry; chunk++) {
        int *const counts = plan->messages + (2 * slot + chunk) * 2 * places;
        int *const at = counts + places;
        int sum = 0;
        for (int n = 0; n < places; n++) {
            const struct span rows = rows_of(gather, n, chunk, range);
            counts[n] = (int)(rows.count * row_units);
            at[n] = (int)((rows.count ? rows.first - range.first : 0) * row_units);
            sum |= counts[n];
        }
        if (sum == 0)
            continue;
        staging_fetch(plan, staging, (size_t)at[plan->place] * gather->unit_bytes,
                      (size_t)counts[plan->place] * gather->unit_bytes);
        MPI_Iallgatherv(MPI_IN_PLACE, 0, gather->unit, memory, counts, at, gather->unit, plan->ring,
                        &gather->messages.request[KEYS_RECEIVED + chunk]);
        gather->messages.to[KEYS_RECEIVED + chunk] = staging;
        plan->times.bytes_sent +=
            (size_t)counts[plan->place] * gather->unit_bytes * (size_t)(places - 1);
    }
}

/* Waits for the round's keys, which then are in device memory. */
static void end_round(struct gather *gather, const int slot)
{
    wait_for(gather->plan, gather->messages.request + KEYS_RECEIVED, CHUNKS);
    staging_close(gather->plan, (enum staging_id)(STAGING_KEYS + slot), true);
}

/* Returns the next round from one on that is visible; gather->rounds if there is none. */
static int next_round(const struct gather *gather, const struct lengths *lengths, int round)
{
    while (round < gather->rounds && !round_is_seen(gather, lengths, round_of(gather, round)))
        round++;
    return round;
}

static struct block block_of(const struct gather *gather, const int round, const int slot)
{
    struct block block = {.keys = round_of(gather, round)};
    struct tensor pair[2];

    pair_by_rows(gather, gather->keys[slot], KEYS, 0, pair);
    block.k = pair[0];
    block.v = pair[1];
    return block;
}

/* ---- forward ---------------------------------------------------------------------------------- */

void gather_forward(clattn_mpi_plan *plan, const struct forward_task *task)
{
    struct gather gather;

    gather_open(&gather, plan, task->k, task->v);
    int round = next_round(&gather, &task->lengths, 0);
    if (round < gather.rounds)
        begin_round(&gather, round, 0);
    for (int slot = 0; round < gather.rounds; slot = !slot) {
        const int next = next_round(&gather, &task->lengths, round + 1);
        const struct block block = block_of(&gather, round, slot);
        end_round(&gather, slot);
        if (next < gather.rounds)
            begin_round(&gather, next, !slot);
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            forward_block(plan, task, chunk, &block);
        device_finish(plan, &gather.messages);
        round = next;
    }
    gather_close(&gather);
}

/* ---- backward --------------------------------------------------------------------------------- */

/* A place's rows of a round. */
static size_t rows_in_round(const struct gather *gather, const int place, const struct span range)
{
    return rows_of(gather, place, 0, range).count + rows_of(gather, place, 1, range).count;
}

static int least(const int a, const int b)
{
    return a < b ? a : b;
}

/* Gradients of a round go to the places whose keys they are of in turns: of turn t to those that are t * turn + 1 and up to
 * t * turn + turn places on, so that there is room for what comes from as many. */
static int turns_of(const struct gather *gather)
{
    return (gather->plan->partition.places - 1 + gather->turn - 1) / gather->turn;
}

static int shares_of_turn(const struct gather *gather, const int turn)
{
    return least(gather->turn, gather->plan->partition.places - 1 - turn * gather->turn);
}

/* Lists what this place sends of a chunk to the place `distance` further on, and gets from the one
 * as far back. */
static void list_share(const struct gather *gather, const struct span range, const int chunk,
                       const int distance, const size_t came_row, int *lists)
{
    const clattn_mpi_plan *plan = gather->plan;
    const int places = plan->partition.places;
    const int to = (plan->place + distance) % places;
    const int from = (plan->place - distance + places) % places;
    const size_t row_units = row_bytes(gather, GRADIENTS) / gather->unit_bytes;
    const struct span theirs = rows_of(gather, to, chunk, range);
    const struct span mine = rows_of(gather, plan->place, chunk, range);

    lists[to] = (int)(theirs.count * row_units);
    lists[places + to] = (int)((theirs.count ? theirs.first - range.first : 0) * row_units);
    lists[2 * places + from] = (int)(mine.count * row_units);
    lists[3 * places + from] = (int)(came_row * row_units);
}

/* Begins a turn's messages. What comes lies chunk by chunk, of each share by share. */
static void begin_turn(struct gather *gather, const int round, const int slot, const int turn)
{
    clattn_mpi_plan *plan = gather->plan;
    const struct span range = round_of(gather, round);
    const int places = plan->partition.places, shares = shares_of_turn(gather, turn);
    const size_t bytes = range.count * row_bytes(gather, GRADIENTS);
    const size_t mine = rows_in_round(gather, plan->place, range);
    const void *from =
        staging_open(plan, STAGING_GRADIENTS, gather->sums[slot], bytes, CL_MAP_READ);
    void *to = staging_open(plan, STAGING_GRADIENTS_NEXT, gather->came,
                            mine * (size_t)shares * row_bytes(gather, GRADIENTS),
                            CL_MAP_WRITE_INVALIDATE_REGION);
    size_t came_row = 0;

    if (turn == 0)
        staging_fetch(plan, STAGING_GRADIENTS, 0, bytes);
    for (int chunk = 0; chunk < CHUNKS && !plan->dry; chunk++) {
        int *const lists = plan->messages + (8 + 4 * chunk) * places;
        memset(lists, 0, 4 * (size_t)places * sizeof *lists);
        for (int n = 0; n < shares; n++) {
            list_share(gather, range, chunk, turn * gather->turn + n + 1, came_row, lists);
            came_row += rows_of(gather, plan->place, chunk, range).count;
        }
        for (int n = 0; n < places; n++)
            plan->times.bytes_sent += (size_t)lists[n] * gather->unit_bytes;
        MPI_Ialltoallv(from, lists, lists + places, gather->unit, to, lists + 2 * places,
                       lists + 3 * places, gather->unit, plan->ring,
                       &gather->messages.request[GRADIENTS_RECEIVED + chunk]);
        gather->messages.to[GRADIENTS_RECEIVED + chunk] = STAGING_GRADIENTS_NEXT;
    }
}

/* Adds what came in a turn to this place's gradients, in the order of distances. */
static void end_turn(struct gather *gather, const int round, const int slot, const int turn)
{
    clattn_mpi_plan *plan = gather->plan;
    const struct span range = round_of(gather, round);
    size_t came_row = 0;

    wait_for(plan, gather->messages.request + GRADIENTS_RECEIVED, CHUNKS);
    staging_close(plan, STAGING_GRADIENTS, false);
    staging_close(plan, STAGING_GRADIENTS_NEXT, true);
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const struct span rows = rows_of(gather, plan->place, chunk, range);
        struct tensor sums[2], share[2];
        pair_by_rows(gather, gather->sums[slot], GRADIENTS, rows.first - range.first, sums);
        for (int n = 0; n < shares_of_turn(gather, turn) && rows.count > 0; n++) {
            pair_by_rows(gather, gather->came, GRADIENTS, came_row, share);
            move_pair(plan, KERNEL_ADD_FLOATS, rows.count, share, sums);
            came_row += rows.count;
        }
    }
}

static void begin_exchange(struct gather *gather, const int round, const int slot)
{
    if (turns_of(gather) > 0)
        begin_turn(gather, round, slot, 0);
}

/* Stores the round's gradients of this place's keys. */
static void end_exchange(struct gather *gather, const struct backward_task *task, const int round,
                         const int slot)
{
    clattn_mpi_plan *plan = gather->plan;
    const struct span range = round_of(gather, round);

    for (int turn = 0; turn < turns_of(gather); turn++) {
        if (turn > 0)
            begin_turn(gather, round, slot, turn);
        end_turn(gather, round, slot, turn);
    }
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const struct span rows = rows_of(gather, plan->place, chunk, range);
        struct tensor sums[2];
        if (rows.count == 0)
            continue;
        pair_by_rows(gather, gather->sums[slot], GRADIENTS, rows.first - range.first, sums);
        store_key_gradients(plan, task, (struct span){own_row(gather, chunk, rows), rows.count},
                            sums);
    }
}

/* The largest number of rows of a round that a place has; all places compute the same. */
static size_t most_of_a_place(const struct gather *gather)
{
    size_t most = 0;

    for (int round = 0; round < gather->rounds; round++)
        for (int n = 0; n < gather->plan->partition.places; n++) {
            const size_t rows = rows_in_round(gather, n, round_of(gather, round));
            most = rows > most ? rows : most;
        }
    return most;
}

/* Allocates the sums of two rounds' gradients, and the buffers for messages of other ranks: of as
 * many at a time as need no more memory than a round's sums. */
static void take_gradients(struct gather *gather)
{
    clattn_mpi_plan *plan = gather->plan;
    const size_t keys = whole_keys(&plan->whole), mine = most_of_a_place(gather);
    const size_t most = gather->round_rows < keys ? gather->round_rows : keys;
    const int others = plan->partition.places - 1;

    gather->turn = others;
    if (mine > 0 && most / mine < (size_t)others)
        gather->turn = (int)(most / mine);
    gather->turn = gather->turn > 1 ? gather->turn : 1;
    const size_t bytes = most * row_bytes(gather, GRADIENTS);
    const size_t came = mine * (size_t)gather->turn * row_bytes(gather, GRADIENTS);
    gather->sums[0] = pool_take(plan, POOL_GRADIENTS, bytes);
    gather->sums[1] = gather->rounds > 1 ? pool_take(plan, POOL_GRADIENTS_NEXT, bytes) : NULL;
    gather->came = pool_take(plan, POOL_GRADIENTS_CAME, came);
    (void)staging_take(plan, STAGING_GRADIENTS, bytes);
    (void)staging_take(plan, STAGING_GRADIENTS_NEXT, came);
}

void gather_backward(clattn_mpi_plan *plan, const struct backward_task *task)
{
    struct gather gather;

    gather_open(&gather, plan, task->k, task->v);
    take_gradients(&gather);
    if (gather.rounds > 0)
        begin_round(&gather, 0, 0);
    for (int round = 0, slot = 0; round < gather.rounds; round++, slot = !slot) {
        const size_t bytes = round_of(&gather, round).count * row_bytes(&gather, GRADIENTS);
        struct block block = block_of(&gather, round, slot);
        struct tensor sums[2];
        end_round(&gather, slot);
        if (round + 1 < gather.rounds)
            begin_round(&gather, round + 1, !slot);
        device_fill(plan, gather.sums[slot], bytes / sizeof(float), 0.0f);
        pair_by_rows(&gather, gather.sums[slot], GRADIENTS, 0, sums);
        block.dk = sums[0];
        block.dv = sums[1];
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            backward_block(plan, task, chunk, &block);
        device_finish(plan, &gather.messages);
        if (round > 0)
            end_exchange(&gather, task, round - 1, !slot);
        begin_exchange(&gather, round, slot);
    }
    if (gather.rounds > 0)
        end_exchange(&gather, task, gather.rounds - 1, (gather.rounds - 1) % 2);
    gather_close(&gather);
}
