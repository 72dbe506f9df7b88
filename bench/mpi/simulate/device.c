/* SPDX-License-Identifier: Apache-2.0 */
/* A device that computes nothing and takes its time: src/mpi/device.h for SimGrid's SMPI. Memory is counted, not
 * taken; the host's is shared by all ranks, and nobody looks at it. */
#include "bench/mpi/simulate/device.h"
#include "mpi/rates/cost.h"
#include "mpi/shards.h"

#include <smpi/smpi.h>
#include <stdlib.h>

#define HOST_FLOPS 1e9 /* of a host in platform.awk */

struct device_speeds device_speeds;

/* What plan->program points to: seconds of what was enqueued and not waited for. */
struct device {
    double pending;
};

static struct device *device_of(const clattn_mpi_plan *plan)
{
    return (struct device *)(void *)plan->program;
}

static void enqueue_seconds(clattn_mpi_plan *plan, const double seconds)
{
    if (!plan->dry)
        device_of(plan)->pending += seconds;
}

static void enqueue_bytes(clattn_mpi_plan *plan, const double bytes)
{
    enqueue_seconds(plan, bytes / device_speeds.memory_bandwidth);
}

void device_open(clattn_mpi_plan *plan)
{
    plan->program = (cl_program)(void *)calloc(1, sizeof(struct device));
}

void device_close(clattn_mpi_plan *plan)
{
    free(device_of(plan));
}

double device_memory(const clattn_mpi_plan *plan)
{
    double sum = 0;

    for (int n = 0; n < POOLS; n++)
        sum += (double)plan->pools[n].bytes;
    return sum;
}

void device_rates(clattn_context *context, const clattn_problem *whole,
                  const clattn_plan_options *options, struct fault *fault, clattn_mpi_rates *rates)
{
    (void)context;
    (void)whole;
    (void)options;
    (void)fault;
    *rates = device_speeds.rates;
}

size_t device_speed_rows(clattn_context *context, const clattn_problem *whole,
                         const clattn_plan_options *options, struct fault *fault)
{
    (void)context;
    (void)whole;
    (void)options;
    (void)fault;
    return 1;
}

double device_speed(clattn_context *context, const clattn_problem *whole,
                    const clattn_plan_options *options, struct fault *fault, const size_t rows)
{
    (void)context;
    (void)whole;
    (void)options;
    (void)fault;
    (void)rows;
    return device_speeds.rates.flops;
}

void device_wait_for(clattn_mpi_plan *plan, const cl_command_queue queue)
{
    (void)plan;
    (void)queue;
}

/* ---- memory ------------------------------------------------------------------------------------- */

size_t element_bytes(const clattn_mpi_plan *plan)
{
    return plan->whole.dtype == CLATTN_F32 ? 4 : 2;
}

void buffer_check(clattn_mpi_plan *plan, const char *name, const clattn_buffer *buffer,
                  const size_t elements, const size_t bytes)
{
    (void)plan;
    (void)name;
    (void)buffer;
    (void)elements;
    (void)bytes;
}

cl_mem pool_take(clattn_mpi_plan *plan, const enum pool_id id, const size_t bytes)
{
    if (plan->pools[id].bytes < bytes)
        plan->pools[id].bytes = bytes;
    return NULL;
}

unsigned char *staging_take(clattn_mpi_plan *plan, const enum staging_id id, const size_t bytes)
{
    static unsigned char *memory; /* of all ranks, which are one process */
    static size_t size;
    const size_t wanted = bytes + STAGINGS * PAGE_BYTES;

    (void)plan;
    if (size < wanted) { /* what was smaller may still be in use */
        size = 2 * wanted;
        memory = SMPI_SHARED_MALLOC(size);
    }
    return memory + id * PAGE_BYTES;
}

struct tensor tensor_packed_at(const cl_mem buffer, const size_t offset, const size_t heads,
                               const size_t rows, const size_t dim)
{
    return (struct tensor){buffer, offset, {heads * rows * dim, rows * dim, dim}};
}

struct tensor tensor_rows(const struct tensor tensor, const size_t row)
{
    (void)row;
    return tensor;
}

struct tensor tensor_heads(const struct tensor tensor, const size_t head)
{
    (void)head;
    return tensor;
}

/* ---- time --------------------------------------------------------------------------------------- */

/* Messages travel meanwhile, as they do where MPI has a thread or a network card for them. */
void device_finish(clattn_mpi_plan *plan, struct messages *messages)
{
    (void)messages;
    if (plan->dry)
        return;
    smpi_execute_flops(device_of(plan)->pending * HOST_FLOPS);
    plan->times.computing += device_of(plan)->pending;
    device_of(plan)->pending = 0;
}

static void copy_bytes(clattn_mpi_plan *plan, const size_t bytes)
{
    if (plan->dry || bytes == 0)
        return;
    device_finish(plan, NULL);
    smpi_execute_flops((double)bytes / device_speeds.rates.copy_bandwidth * HOST_FLOPS);
    plan->times.staging += (double)bytes / device_speeds.rates.copy_bandwidth;
}

void device_read(clattn_mpi_plan *plan, const cl_mem from, const size_t first_byte, void *to,
                 const size_t bytes)
{
    (void)from;
    (void)first_byte;
    (void)to;
    copy_bytes(plan, bytes);
}

void device_write(clattn_mpi_plan *plan, const cl_mem to, const size_t first_byte, const void *from,
                  const size_t bytes)
{
    (void)to;
    (void)first_byte;
    (void)from;
    copy_bytes(plan, bytes);
}

struct messages no_messages(void)
{
    struct messages messages;

    for (int n = 0; n < MOST_REQUESTS; n++) {
        messages.request[n] = MPI_REQUEST_NULL;
        messages.to[n] = NO_STAGING;
    }
    return messages;
}

/* Copies, none of them beside the computation. */
unsigned char *staging_open(clattn_mpi_plan *plan, const enum staging_id id, const cl_mem buffer,
                            const size_t bytes, const cl_map_flags flags)
{
    struct staging *staging = &plan->stagings[id];

    (void)buffer;
    staging->at = staging_take(plan, id, bytes);
    staging->count = bytes;
    staging->flags = flags;
    return staging->at;
}

void staging_fetch(clattn_mpi_plan *plan, const enum staging_id id, const size_t first_byte,
                   const size_t bytes)
{
    (void)id;
    (void)first_byte;
    copy_bytes(plan, bytes);
}

void staging_close(clattn_mpi_plan *plan, const enum staging_id id, const bool keep)
{
    struct staging *staging = &plan->stagings[id];

    if (staging->at && keep && staging->flags != CL_MAP_READ)
        copy_bytes(plan, staging->count);
    staging->at = NULL;
}

void device_fill(clattn_mpi_plan *plan, const cl_mem buffer, const size_t floats, const float value)
{
    (void)buffer;
    (void)value;
    enqueue_bytes(plan, 4.0 * (double)floats);
}

/* Rows are read and written; sums are f32 and read as well. */
void device_move(clattn_mpi_plan *plan, const enum kernel kernel, const size_t size[4],
                 const struct tensor from, const struct tensor to)
{
    const double elements = (double)(size[0] * size[1] * size[2]) * (double)size[3];
    const bool floats = kernel == KERNEL_COPY_FLOATS || kernel == KERNEL_ADD_FLOATS;
    const bool adds = kernel == KERNEL_ADD_FLOATS;

    (void)from;
    (void)to;
    enqueue_bytes(plan, elements * ((floats ? 8 : 2 * (double)element_bytes(plan)) + 8 * adds));
}

/* ---- attention ---------------------------------------------------------------------------------- */

static size_t place_rows(const clattn_mpi_plan *plan)
{
    return (plan->whole.total_q ? 1 : plan->whole.batch) * plan->heads *
           chunks_count(plan->partition.place[plan->place].q);
}

/* What a chunk of queries and a block of keys see of each other, and the f32 results that are merged: `rows` floats
 * a query and head, `keys` a key and kv head. */
static void compute_block(clattn_mpi_plan *plan, const struct lengths *lengths, const int chunk,
                          const struct block *block, const size_t of_query, const size_t of_key)
{
    const size_t count =
        block->joined ? 1
                      : parts_of(&plan->whole, lengths, plan->partition.place[plan->place].q[chunk],
                                 block->keys, plan->parts);

    for (size_t n = 0; n < count; n++) {
        const struct part *part = block->joined ? block->joined : &plan->parts[n];
        const size_t results = part->batches * (plan->heads * part->q.count * of_query +
                                                plan->kv_heads * part->kv.count * of_key);
        if (!plan->dry)
            enqueue_seconds(plan, cost_of_part(&plan->whole, plan->heads, plan->kv_heads, part,
                                               &device_speeds.rates, 1.0));
        enqueue_bytes(plan, 4.0 * sizeof(float) * (double)results); /* write, read, add */
        (void)pool_take(plan, POOL_PART_O,
                        part->batches * plan->heads * part->q.count * of_query * sizeof(float));
        (void)pool_take(plan, POOL_PART_DK,
                        part->batches * plan->kv_heads * part->kv.count * of_key * sizeof(float));
        plan->times.parts++;
    }
}

void forward_begin(clattn_mpi_plan *plan, const struct forward_task *task)
{
    (void)task;
    (void)pool_take(plan, POOL_O, place_rows(plan) * (plan->whole.dim_v + 1) * sizeof(float));
}

void forward_block(clattn_mpi_plan *plan, const struct forward_task *task, const int chunk,
                   const struct block *block)
{
    compute_block(plan, &task->lengths, chunk, block, plan->whole.dim_v + 1, 0);
}

void forward_end(clattn_mpi_plan *plan, const struct forward_task *task)
{
    (void)task;
    enqueue_bytes(plan, 6.0 * (double)(place_rows(plan) * plan->whole.dim_v));
    device_finish(plan, NULL);
}

size_t state_bytes(const clattn_mpi_plan *plan)
{
    return place_rows(plan) * (plan->whole.dim_v + 1) * sizeof(float);
}

void state_read(clattn_mpi_plan *plan, void *state)
{
    (void)state;
    copy_bytes(plan, state_bytes(plan));
}

void state_merge(clattn_mpi_plan *plan, const void *state, const bool first)
{
    (void)state;
    copy_bytes(plan, state_bytes(plan));
    enqueue_bytes(plan, first ? 0.0 : 3.0 * (double)state_bytes(plan));
}

void backward_begin(clattn_mpi_plan *plan, const struct backward_task *task)
{
    const size_t bytes = place_rows(plan) * plan->whole.dim_qk * sizeof(float);

    (void)task;
    (void)pool_take(plan, POOL_O, bytes);
    enqueue_bytes(plan, (double)bytes);
}

void backward_block(clattn_mpi_plan *plan, const struct backward_task *task, const int chunk,
                    const struct block *block)
{
    compute_block(plan, &task->lengths, chunk, block, plan->whole.dim_qk,
                  plan->whole.dim_qk + plan->whole.dim_v);
}

void store_key_gradients(clattn_mpi_plan *plan, const struct backward_task *task,
                         const struct span rows, const struct tensor sums[2])
{
    const struct tensor to[2] = {task->dk, task->dv};

    move_pair(plan, KERNEL_STORE_ROWS, rows.count, sums, to);
}

void backward_end(clattn_mpi_plan *plan, const struct backward_task *task, float *dslopes,
                  float *dsinks)
{
    (void)task;
    (void)dslopes;
    (void)dsinks;
    enqueue_bytes(plan, 6.0 * (double)(place_rows(plan) * plan->whole.dim_qk));
    device_finish(plan, NULL);
}
