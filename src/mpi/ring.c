/* SPDX-License-Identifier: Apache-2.0 */
/* A ring: at step t place p has the keys of place p - t, and passes them on to place p + 1. */
#include "mpi/shards.h"

/* State of both directions of a ring. At step t STAGING_KEYS + t % 2 holds the current keys, and
 * buffers[t % 2] does, too; the caller's tensors hold the rank's own keys. */
struct ring {
    clattn_mpi_plan *plan;
    int places, me;
    struct tensor own[2]; /* k and v of this place */
    cl_mem buffers[2];
    cl_mem came;     /* gradients that the previous place has passed on */
    cl_mem returned; /* gradients of this place's keys, from the queries of other places */
    struct messages messages;
    MPI_Request return_request; /* the request that receives `returned` */
};

/* Indices of requests of the present step; gradients that are sent are those of the step before. */
enum { KEYS_SENT, KEYS_RECEIVED, GRADIENTS_SENT, GRADIENTS_RECEIVED };

enum { TAG_KEYS = 1, TAG_GRADIENTS = 2, TAG_RETURNED = 3 };

static int ring_place(const struct ring *ring, const int place)
{
    return (place % ring->places + ring->places) % ring->places;
}

static size_t rows_of(const struct ring *ring, const int place)
{
    return chunks_count(ring->plan->partition.place[place].kv);
}

static size_t most_rows(const struct ring *ring)
{
    size_t most = 0;

    for (int n = 0; n < ring->places; n++)
        if (rows_of(ring, n) > most)
            most = rows_of(ring, n);
    return most;
}

/* Returns whether keys are sent on from their place at step t, because queries of a later place see
 * them. */
static bool keys_travel(const struct ring *ring, const int of_keys, const int step)
{
    for (int later = step + 1; later < ring->places; later++)
        if (place_sees(ring->plan, ring_place(ring, of_keys + later), of_keys))
            return true;
    return false;
}

static enum staging_id keys_staging(const int step)
{
    return (enum staging_id)(STAGING_KEYS + step % 2);
}

static struct ring ring_open(clattn_mpi_plan *plan, const struct tensor k, const struct tensor v)
{
    struct ring ring = {.plan = plan,
                        .places = plan->partition.places,
                        .me = plan->place,
                        .own = {k, v},
                        .messages = no_messages(),
                        .return_request = MPI_REQUEST_NULL};

    if (ring.places == 1)
        return ring;
    const size_t bytes = whole_pages(keys_bytes(plan, most_rows(&ring)));
    for (int n = 0; n < 2; n++) {
        ring.buffers[n] = pool_take(plan, POOL_KEYS + n, bytes);
        (void)staging_take(plan, keys_staging(n), bytes);
    }
    return ring;
}

/* Packs this place's keys into the memory that messages are sent from. */
static void pack_own_keys(struct ring *ring)
{
    clattn_mpi_plan *plan = ring->plan;
    const size_t rows = rows_of(ring, ring->me);
    struct tensor packed[2];

    if (ring->places == 1 || !keys_travel(ring, ring->me, 0))
        return;
    packed_pair(plan, ring->buffers[0], rows, packed);
    move_pair(plan, KERNEL_COPY_ROWS, rows, ring->own, packed);
}

/* Starts the messages of a step: sends the present keys to the next place, and receives the next keys from the place before. */
static void pass_keys(struct ring *ring, const int step)
{
    clattn_mpi_plan *plan = ring->plan;
    const int at_hand = ring_place(ring, ring->me - step);
    const int coming = ring_place(ring, ring->me - step - 1);

    if (step + 1 >= ring->places)
        return;
    if (keys_travel(ring, coming, step)) {
        const size_t bytes = whole_pages(keys_bytes(plan, rows_of(ring, coming)));
        void *to = staging_open(plan, keys_staging(step + 1), ring->buffers[(step + 1) % 2], bytes,
                                CL_MAP_WRITE_INVALIDATE_REGION);
        MPI_Irecv(to, (int)(bytes / PAGE_BYTES), plan->page, ring_place(ring, ring->me - 1),
                  TAG_KEYS, plan->ring, &ring->messages.request[KEYS_RECEIVED]);
    }
    ring->messages.to[KEYS_RECEIVED] =
        place_sees(plan, ring->me, coming) ? keys_staging(step + 1) : NO_STAGING;
    if (keys_travel(ring, at_hand, step)) {
        const size_t bytes = whole_pages(keys_bytes(plan, rows_of(ring, at_hand)));
        const void *from =
            staging_open(plan, keys_staging(step), ring->buffers[step % 2], bytes, CL_MAP_READ);
        if (step == 0) /* in later steps the staging holds the keys that it received */
            staging_fetch(plan, keys_staging(step));
        MPI_Isend(from, (int)(bytes / PAGE_BYTES), plan->page, ring_place(ring, ring->me + 1),
                  TAG_KEYS, plan->ring, &ring->messages.request[KEYS_SENT]);
        plan->times.bytes_sent += bytes;
    }
}

/* Ends step t: the device has computed, the messages have arrived, and the next step has its
 * inputs. */
static void end_step(struct ring *ring, const int step)
{
    clattn_mpi_plan *plan = ring->plan;
    const int coming = ring_place(ring, ring->me - step - 1);

    device_finish(plan, &ring->messages);
    wait_for(plan, ring->messages.request, MOST_REQUESTS);
    staging_close(plan, keys_staging(step), false);
    staging_close(plan, keys_staging(step + 1), place_sees(plan, ring->me, coming));
    staging_close(plan, STAGING_GRADIENTS, false);
}

/* The chunk pairs in which this place's queries and the keys of step t are computed. */
static int pairs_at(const struct ring *ring, const int step,
                    struct chunk_pair pairs[CHUNKS * CHUNKS])
{
    const struct partition *of = &ring->plan->partition;

    return chunk_pairs(&ring->plan->whole, &of->place[ring->me],
                       &of->place[ring_place(ring, ring->me - step)], pairs);
}

/* The keys of a pair of chunks at step t; dk and dv of all keys at hand begin the gradients. */
static struct block block_at(const struct ring *ring, const int step,
                             const struct chunk_pair *chunks_of, const struct tensor *gradients)
{
    const int place = ring_place(ring, ring->me - step);
    const struct span *chunks = ring->plan->partition.place[place].kv;
    const size_t row = chunk_row(chunks, chunks_of->kv);
    struct tensor pair[2] = {ring->own[0], ring->own[1]};
    struct block block = {.keys = chunks[chunks_of->kv],
                          .joined = chunks_of->joined ? &chunks_of->part : NULL};

    if (step > 0)
        packed_pair(ring->plan, ring->buffers[step % 2], rows_of(ring, place), pair);
    block.k = tensor_rows(pair[0], row);
    block.v = tensor_rows(pair[1], row);
    if (gradients) {
        block.dk = tensor_rows(gradients[0], row);
        block.dv = tensor_rows(gradients[1], row);
    }
    return block;
}

/* ---- forward ---------------------------------------------------------------------------------- */

void ring_forward(clattn_mpi_plan *plan, const struct forward_task *task)
{
    struct ring ring = ring_open(plan, task->k, task->v);
    struct chunk_pair pairs[CHUNKS * CHUNKS];

    pack_own_keys(&ring);
    for (int step = 0; step < ring.places; step++) {
        if (!plan->dry)
            pass_keys(&ring, step);
        const int count = pairs_at(&ring, step, pairs);
        for (int n = 0; n < count; n++) {
            const struct block block = block_at(&ring, step, &pairs[n], NULL);
            forward_block(plan, task, pairs[n].q, &block);
        }
        end_step(&ring, step);
    }
}

/* ---- backward --------------------------------------------------------------------------------- */

/* The gradients of a place's keys go from the first place that sees them, in the order in which these have
 * the keys, through all places up to the last one that does, and then to their owner. The step of the first (direction
 * 1) or of the last (-1); 0: nobody else sees them. */
static int step_that_sees(const struct ring *ring, const int of_keys, const int direction)
{
    for (int n = direction > 0 ? 1 : ring->places - 1; n > 0 && n < ring->places; n += direction)
        if (place_sees(ring->plan, ring_place(ring, of_keys + n), of_keys))
            return n;
    return 0;
}

/* Returns whether dk and dv of step t are added to those of the previous places and sent on.
 * */
static bool gradients_join(const struct ring *ring, const int step)
{
    const int of_keys = ring_place(ring, ring->me - step);
    const int first = step_that_sees(ring, of_keys, 1);

    return step > 0 && first > 0 && step >= first && step <= step_that_sees(ring, of_keys, -1);
}

/* Returns whether others come before. */
static bool gradients_come(const struct ring *ring, const int step)
{
    return gradients_join(ring, step) &&
           step > step_that_sees(ring, ring_place(ring, ring->me - step), 1);
}

static int gradient_pages(const struct ring *ring, const int of_keys)
{
    return (int)(whole_pages(gradients_bytes(ring->plan, rows_of(ring, of_keys))) / PAGE_BYTES);
}

/* Asks for the gradients that those of step t join, before the step is computed: they travel meanwhile, and
 * nobody waits in a circle, however large the messages. */
static void expect_gradients(struct ring *ring, const int step)
{
    clattn_mpi_plan *plan = ring->plan;
    const int pages = gradient_pages(ring, ring_place(ring, ring->me - step));

    if (!gradients_come(ring, step))
        return;
    void *to = staging_open(plan, STAGING_GRADIENTS_NEXT, ring->came, (size_t)pages * PAGE_BYTES,
                            CL_MAP_WRITE_INVALIDATE_REGION);
    MPI_Irecv(to, pages, plan->page, ring_place(ring, ring->me - 1), TAG_GRADIENTS, plan->ring,
              &ring->messages.request[GRADIENTS_RECEIVED]);
    ring->messages.to[GRADIENTS_RECEIVED] = STAGING_GRADIENTS_NEXT;
}

/* Adds gradients that have arrived to those on the device. */
static void add_gradients_that_came(struct ring *ring, const enum staging_id staging,
                                    const cl_mem came, const size_t rows,
                                    const struct tensor sums[2])
{
    clattn_mpi_plan *plan = ring->plan;
    struct tensor pair[2];

    staging_close(plan, staging, true);
    packed_pair(plan, came, rows, pair);
    move_pair(plan, KERNEL_ADD_FLOATS, rows, pair, sums);
}

/* Sends on dk and dv that were computed at step t, together with those that had arrived. */
static void pass_gradients(struct ring *ring, const int step, const cl_mem gradients,
                           const struct tensor sums[2])
{
    clattn_mpi_plan *plan = ring->plan;
    const int of_keys = ring_place(ring, ring->me - step), pages = gradient_pages(ring, of_keys);
    const bool goes_on = step < step_that_sees(ring, of_keys, -1);

    if (!gradients_join(ring, step))
        return;
    if (gradients_come(ring, step))
        add_gradients_that_came(ring, STAGING_GRADIENTS_NEXT, ring->came, rows_of(ring, of_keys),
                                sums);
    const void *from =
        staging_open(plan, STAGING_GRADIENTS, gradients, (size_t)pages * PAGE_BYTES, CL_MAP_READ);
    staging_fetch(plan, STAGING_GRADIENTS);
    MPI_Isend(from, pages, plan->page, goes_on ? ring_place(ring, ring->me + 1) : of_keys,
              goes_on ? TAG_GRADIENTS : TAG_RETURNED, plan->ring,
              &ring->messages.request[GRADIENTS_SENT]);
    plan->times.bytes_sent += (size_t)pages * PAGE_BYTES;
}

/* Requests the sums of this place's gradients over the other places, at the very beginning. */
static void expect_returned(struct ring *ring)
{
    clattn_mpi_plan *plan = ring->plan;
    const int last = step_that_sees(ring, ring->me, -1), pages = gradient_pages(ring, ring->me);

    if (plan->dry || last == 0)
        return;
    void *to = staging_open(plan, STAGING_GRADIENTS_RETURNED, ring->returned,
                            (size_t)pages * PAGE_BYTES, CL_MAP_WRITE_INVALIDATE_REGION);
    MPI_Irecv(to, pages, plan->page, ring_place(ring, ring->me + last), TAG_RETURNED, plan->ring,
              &ring->return_request);
}

/* Adds the gradients of this place's keys from the last place that sees them to its own. */
static void take_returned(struct ring *ring, const struct backward_task *task,
                          const struct tensor own[2])
{
    clattn_mpi_plan *plan = ring->plan;
    const size_t rows = rows_of(ring, ring->me);
    const bool others = ring->return_request != MPI_REQUEST_NULL;

    wait_for(plan, &ring->return_request, 1);
    if (others)
        add_gradients_that_came(ring, STAGING_GRADIENTS_RETURNED, ring->returned, rows, own);
    store_key_gradients(plan, task, (struct span){0, rows}, own);
    wait_for(plan, ring->messages.request, MOST_REQUESTS);
    staging_close(plan, STAGING_GRADIENTS, false);
}

/* Memory for gradients of a shard: where the host's messages are in it a second one, which is computed while the first
 * one travels, and a third for those that return; else these wait in copies of the host's. */
static void take_gradients(struct ring *ring, cl_mem gradients[2])
{
    clattn_mpi_plan *plan = ring->plan;
    const size_t most = whole_pages(gradients_bytes(plan, most_rows(ring)));
    const bool shares = plan->shares_memory;

    gradients[0] = pool_take(plan, POOL_GRADIENTS, most);
    gradients[1] = pool_take(plan, shares ? POOL_GRADIENTS_NEXT : POOL_GRADIENTS, most);
    ring->came = pool_take(plan, POOL_GRADIENTS_CAME, most);
    ring->returned = pool_take(plan, shares ? POOL_GRADIENTS_RETURNED : POOL_GRADIENTS_CAME, most);
    (void)staging_take(plan, STAGING_GRADIENTS, most);
    (void)staging_take(plan, STAGING_GRADIENTS_NEXT, most);
    (void)staging_take(plan, STAGING_GRADIENTS_RETURNED, most);
}

void ring_backward(clattn_mpi_plan *plan, const struct backward_task *task)
{
    struct ring ring = ring_open(plan, task->k, task->v);
    cl_mem gradients_own =
        pool_take(plan, POOL_GRADIENTS_OWN, gradients_bytes(plan, rows_of(&ring, ring.me)));
    cl_mem gradients[2] = {NULL, NULL};
    struct tensor own[2], pair[2];
    struct chunk_pair pairs[CHUNKS * CHUNKS];

    if (ring.places > 1)
        take_gradients(&ring, gradients);
    expect_returned(&ring);
    pack_own_keys(&ring);
    packed_pair(plan, gradients_own, rows_of(&ring, ring.me), own);
    for (int step = 0; step < ring.places; step++) {
        const int place = ring_place(&ring, ring.me - step);
        const size_t bytes = gradients_bytes(plan, rows_of(&ring, place));
        cl_mem sums = step > 0 ? gradients[step % 2] : gradients_own;
        if (!plan->dry) {
            pass_keys(&ring, step);
            expect_gradients(&ring, step);
        }
        packed_pair(plan, sums, rows_of(&ring, place), pair);
        const int count = pairs_at(&ring, step, pairs);
        const bool writes_all =
            count == 1 && pairs[0].joined && pairs[0].part.kv.count == rows_of(&ring, place);
        if (!writes_all)
            device_fill(plan, sums, bytes / sizeof(float), 0.0f);
        bool begun[CHUNKS] = {false};
        for (int n = 0; n < count; n++) {
            struct block block = block_at(&ring, step, &pairs[n], pair);
            block.begun = begun[pairs[n].kv];
            backward_block(plan, task, pairs[n].q, &block);
            begun[pairs[n].kv] = block.begun;
        }
        end_step(&ring, step);
        if (!plan->dry)
            pass_gradients(&ring, step, sums, pair);
    }
    take_returned(&ring, task, own);
}
