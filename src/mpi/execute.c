/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/execute.h"
#include "mpi/heads.h"

#include <string.h>

/* ---- this rank's tensors ------------------------------------------------------------------------ */

/* Sizes of a tensor of this rank's shard. */
struct extent {
    size_t batches, heads, rows, dim;
};

static struct extent extent_of(const clattn_mpi_plan *plan, const bool of_keys, const size_t dim)
{
    return (struct extent){
        whole_batches(&plan->whole, of_keys), of_keys ? plan->whole.kv_heads : plan->whole.heads,
        chunks_count(shard_chunks(&plan->partition.rank[plan->rank], of_keys)), dim};
}

/* Returns a tensor of the caller's, with a fault if it is missing or too small. `bytes` of an
 * element. */
static struct tensor own_tensor(clattn_mpi_plan *plan, const char *name,
                                const clattn_buffer *buffer, const clattn_layout *layout,
                                const struct extent e, const size_t bytes)
{
    struct tensor tensor = tensor_packed_at(buffer->buffer, buffer->offset, e.heads, e.rows, e.dim);

    if (layout && (layout->stride[0] | layout->stride[1] | layout->stride[2] | layout->stride[3]))
        memcpy(tensor.stride, layout->stride, sizeof tensor.stride);
    if (plan->dry || e.batches * e.heads * e.rows * e.dim == 0)
        return tensor;
    buffer_check(plan, name, buffer,
                 tensor.offset + (e.batches - 1) * tensor.stride[0] +
                     (e.heads - 1) * tensor.stride[1] + (e.rows - 1) * tensor.stride[2] + e.dim,
                 bytes);
    return tensor;
}

static struct tensor own_lse(clattn_mpi_plan *plan, const clattn_buffer *buffer)
{
    return own_tensor(plan, "lse", buffer, NULL, extent_of(plan, false, 1), sizeof(float));
}

/* Checks a list, such as the sinks, which each rank has whole. */
static void check_list(clattn_mpi_plan *plan, const char *name, const int present,
                       const clattn_buffer *buffer, const size_t count)
{
    if (present)
        (void)own_tensor(plan, name, buffer, NULL, (struct extent){1, 1, 1, count}, sizeof(cl_int));
    else if (!plan->dry && (buffer->buffer || buffer->pointer))
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT, "%s is given, which the problem has not",
                  name);
}

/* The tensors that both forward and backward have and that the parts' own plans do not check. */
struct lists {
    const clattn_buffer *sinks, *slopes, *q_lengths, *kv_lengths, *q_starts, *kv_starts;
    cl_ulong seed;
    cl_uint offset;
    const clattn_function_values *function_values;
};

/* The lists of the struct of either call. */
#define LISTS_OF(tensors)                                                                          \
    {                                                                                              \
        &(tensors)->sinks, &(tensors)->slopes, &(tensors)->q_lengths, &(tensors)->kv_lengths,      \
            &(tensors)->q_starts, &(tensors)->kv_starts, (tensors)->dropout_seed,                  \
            (tensors)->dropout_offset, (tensors)->function_values                                  \
    }

static void check_lists(clattn_mpi_plan *plan, const struct lists *lists)
{
    const clattn_problem *p = &plan->whole;

    check_list(plan, "sinks", p->sinks, lists->sinks, p->heads);
    check_list(plan, "slopes", p->alibi, lists->slopes, p->heads);
    check_list(plan, "q_lengths", p->q_lengths, lists->q_lengths, p->batch);
    check_list(plan, "kv_lengths", p->kv_lengths, lists->kv_lengths, p->batch);
    check_list(plan, "q_starts", p->total_q != 0, lists->q_starts, p->batch + 1);
    check_list(plan, "kv_starts", p->total_kv != 0, lists->kv_starts, p->batch + 1);
}

/* Reads lengths and starts, and returns a hash of them and of all else that must be the same on all
 * ranks. */
static uint64_t read_lists(clattn_mpi_plan *plan, const struct lists *lists)
{
    const size_t batch = plan->whole.batch;
    const struct {
        cl_int *to;
        const clattn_buffer *from;
        size_t count;
    } all[] = {{plan->lengths.q_lengths, lists->q_lengths, batch},
               {plan->lengths.kv_lengths, lists->kv_lengths, batch},
               {plan->lengths.q_starts, lists->q_starts, batch + 1},
               {plan->lengths.kv_starts, lists->kv_starts, batch + 1}};
    uint64_t hash = HASH_BEGIN;

    hash = hash_more(hash, &lists->seed, sizeof lists->seed);
    hash = hash_more(hash, &lists->offset, sizeof lists->offset);
    if (lists->function_values)
        hash = hash_more(hash, lists->function_values, sizeof *lists->function_values);
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        if (!all[n].to || all[n].count == 0)
            continue;
        device_read(plan, all[n].from->buffer, all[n].from->offset * sizeof *all[n].to, all[n].to,
                    all[n].count * sizeof *all[n].to);
        hash = hash_more(hash, all[n].to, all[n].count * sizeof *all[n].to);
    }
    return hash;
}

/* ---- heads -------------------------------------------------------------------------------------- */

/* The tensor that the place computes with: the caller's, or one of the rank's heads. */
static struct tensor place_tensor(clattn_mpi_plan *plan, const enum pool_id id,
                                  const struct exchange *exchange, const struct tensor own)
{
    struct shard *shard = &plan->partition.place[plan->place];
    const size_t rows = chunks_count(shard_chunks(shard, exchange->of_keys));
    const size_t batches = whole_batches(&plan->whole, exchange->of_keys);
    const size_t bytes = exchange->floats ? sizeof(float) : element_bytes(plan);

    if (plan->partition.heads_ranks == 1)
        return own;
    return tensor_packed_at(
        pool_take(plan, id, batches * exchange->heads * rows * exchange->dim * bytes), 0,
        exchange->heads, rows, exchange->dim);
}

static struct tensor bring_in(clattn_mpi_plan *plan, const enum pool_id id,
                              const struct exchange *exchange, const struct tensor own)
{
    const struct tensor place = place_tensor(plan, id, exchange, own);

    if (plan->partition.heads_ranks > 1)
        heads_exchange(plan, exchange, own, place, true);
    return place;
}

static void bring_out(clattn_mpi_plan *plan, const struct exchange *exchange,
                      const struct tensor own, const struct tensor place)
{
    if (plan->partition.heads_ranks > 1)
        heads_exchange(plan, exchange, own, place, false);
}

/* The exchange of heads for each kind of tensor. */
struct exchanges {
    struct exchange q, k, v, o, lse;
};

static struct exchanges exchanges_of(const clattn_mpi_plan *plan)
{
    const clattn_problem *p = &plan->whole;

    return (struct exchanges){.q = {plan->heads, p->dim_qk, false, false},
                              .k = {plan->kv_heads, p->dim_qk, true, false},
                              .v = {plan->kv_heads, p->dim_v, true, false},
                              .o = {plan->heads, p->dim_v, false, false},
                              .lse = {plan->heads, 1, false, true}};
}

/* ---- forward ------------------------------------------------------------------------------------ */

static struct forward_task forward_tensors(clattn_mpi_plan *plan, const clattn_forward_tensors *t)
{
    const clattn_problem *p = &plan->local;
    const size_t bytes = element_bytes(plan);

    return (struct forward_task){
        .q = own_tensor(plan, "q", &t->q, &p->q, extent_of(plan, false, p->dim_qk), bytes),
        .k = own_tensor(plan, "k", &t->k, &p->k, extent_of(plan, true, p->dim_qk), bytes),
        .v = own_tensor(plan, "v", &t->v, &p->v, extent_of(plan, true, p->dim_v), bytes),
        .o = own_tensor(plan, "o", &t->o, &p->o, extent_of(plan, false, p->dim_v), bytes),
        .lse = p->lse ? own_lse(plan, &t->lse) : (struct tensor){NULL, 0, {0, 0, 0}},
        .of = t,
        .lengths = plan->lengths};
}

void run_forward(clattn_mpi_plan *plan, const clattn_forward_tensors *tensors)
{
    const struct forward_task own = forward_tensors(plan, tensors);
    const struct exchanges of = exchanges_of(plan);
    struct forward_task task = own;

    task.q = bring_in(plan, POOL_HEADS_Q, &of.q, own.q);
    task.k = bring_in(plan, POOL_HEADS_K, &of.k, own.k);
    task.v = bring_in(plan, POOL_HEADS_V, &of.v, own.v);
    task.o = place_tensor(plan, POOL_HEADS_O, &of.o, own.o);
    if (plan->whole.lse)
        task.lse = place_tensor(plan, POOL_HEADS_LSE, &of.lse, own.lse);
    shards_forward(plan, &task);
    bring_out(plan, &of.o, own.o, task.o);
    if (plan->whole.lse)
        bring_out(plan, &of.lse, own.lse, task.lse);
}

/* All ranks wait for each other here: timed as waiting. */
static clattn_status agree(clattn_mpi_plan *plan, const uint64_t hash)
{
    const double begun = MPI_Wtime();
    const clattn_status status =
        fault_agree_alike(plan->communicator, plan->context, &plan->fault, hash,
                          "lengths, starts, function_values, dropout_seed and dropout_offset");

    plan->times.waiting += MPI_Wtime() - begun;
    return status;
}

/* Returns whether a call's queue and tensors may be read. If not, there is a fault, which all ranks
 * get, since they wait for this one. mistake: the error in the struct of tensors, or NULL. */
static bool check_call(clattn_mpi_plan *plan, const clattn_operation operation,
                       const cl_command_queue queue, const char *mistake, const char *name)
{
    if (mistake)
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT, "%s", mistake);
    else if (plan->whole.operation != operation)
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT, "the plan is of another operation than %s",
                  name);
    else if (!queue)
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT, "queue is null");
    return fault_none(&plan->fault);
}

/* Begins a call: true once all ranks have sound arguments, and lists alike. */
static bool begin_call(clattn_mpi_plan *plan, cl_command_queue queue, const struct lists *lists,
                       clattn_status *status)
{
    plan->times = (struct times){.begun = MPI_Wtime()};
    check_lists(plan, lists);
    device_wait_for(plan, queue);
    *status = agree(plan, read_lists(plan, lists));
    return *status == CLATTN_SUCCESS;
}

static clattn_status end_call(clattn_mpi_plan *plan)
{
    const clattn_status status = agree(plan, HASH_BEGIN);

    plan->times.all = MPI_Wtime() - plan->times.begun;
    return status;
}

clattn_status clattn_mpi_forward(clattn_mpi_plan *plan, cl_command_queue queue,
                                 const clattn_forward_tensors *tensors)
{
    static const clattn_forward_tensors nothing = {.struct_size = sizeof nothing};
    clattn_forward_tensors own;
    char why[CA_REASON_BYTES];
    clattn_status status;

    if (!plan) /* without a plan there is no communicator to agree on a fault */
        return CLATTN_INVALID_ARGUMENT;
    tensors = CA_READ(clattn_forward_tensors, "tensors", tensors, &own, why);
    if (check_call(plan, CLATTN_FORWARD, queue, tensors ? NULL : why, "clattn_forward_tensors"))
        (void)forward_tensors(plan, tensors);
    else
        tensors = &nothing;
    const struct lists lists = LISTS_OF(tensors);
    if (!begin_call(plan, queue, &lists, &status))
        return status;
    run_forward(plan, tensors);
    return end_call(plan);
}

/* ---- backward ----------------------------------------------------------------------------------- */

static struct backward_task backward_tensors(clattn_mpi_plan *plan,
                                             const clattn_backward_tensors *t)
{
    const clattn_problem *p = &plan->local;
    const size_t bytes = element_bytes(plan);
    const struct extent q = extent_of(plan, false, p->dim_qk), o = extent_of(plan, false, p->dim_v);
    const struct extent k = extent_of(plan, true, p->dim_qk), v = extent_of(plan, true, p->dim_v);

    return (struct backward_task){.q = own_tensor(plan, "q", &t->q, &p->q, q, bytes),
                                  .k = own_tensor(plan, "k", &t->k, &p->k, k, bytes),
                                  .v = own_tensor(plan, "v", &t->v, &p->v, v, bytes),
                                  .o = own_tensor(plan, "o", &t->o, &p->o, o, bytes),
                                  .d_o = own_tensor(plan, "do", &t->d_o, &p->d_o, o, bytes),
                                  .lse = own_lse(plan, &t->lse),
                                  .dq = own_tensor(plan, "dq", &t->dq, &p->dq, q, bytes),
                                  .dk = own_tensor(plan, "dk", &t->dk, &p->dk, k, bytes),
                                  .dv = own_tensor(plan, "dv", &t->dv, &p->dv, v, bytes),
                                  .of = t,
                                  .lengths = plan->lengths};
}

/* Sums dslopes, dsinks and dfunction over ranks, of which each has shares of its own heads and queries, and stores them. */
static void sum_lists(clattn_mpi_plan *plan, const clattn_backward_tensors *tensors)
{
    const size_t heads = plan->whole.heads;
    const struct {
        const clattn_buffer *to;
        int wanted;
        size_t count;
    } lists[] = {{&tensors->dslopes, plan->whole.dslopes, heads},
                 {&tensors->dsinks, plan->whole.dsinks, heads},
                 {&tensors->dfunction, plan->whole.dfunction, function_gradients(plan)}};
    float *all = plan->list_sums;

    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        const size_t count = lists[n].count;
        if (lists[n].wanted) {
            MPI_Allreduce(MPI_IN_PLACE, all, (int)count, MPI_FLOAT, MPI_SUM, plan->communicator);
            device_write(plan, lists[n].to->buffer, lists[n].to->offset * sizeof *all, all,
                         count * sizeof *all);
        }
        all += count;
    }
}

void run_backward(clattn_mpi_plan *plan, const clattn_backward_tensors *tensors)
{
    const struct backward_task own = backward_tensors(plan, tensors);
    const struct exchanges of = exchanges_of(plan);
    struct backward_task task = own;

    task.q = bring_in(plan, POOL_HEADS_Q, &of.q, own.q);
    task.k = bring_in(plan, POOL_HEADS_K, &of.k, own.k);
    task.v = bring_in(plan, POOL_HEADS_V, &of.v, own.v);
    task.o = bring_in(plan, POOL_HEADS_O, &of.o, own.o);
    task.d_o = bring_in(plan, POOL_HEADS_DO, &of.o, own.d_o);
    task.lse = bring_in(plan, POOL_HEADS_LSE, &of.lse, own.lse);
    task.dq = place_tensor(plan, POOL_HEADS_DQ, &of.q, own.dq);
    task.dk = place_tensor(plan, POOL_HEADS_DK, &of.k, own.dk);
    task.dv = place_tensor(plan, POOL_HEADS_DV, &of.v, own.dv);
    memset(plan->list_sums, 0,
           (2 * plan->whole.heads + function_gradients(plan)) * sizeof *plan->list_sums);
    shards_backward(plan, &task);
    bring_out(plan, &of.q, own.dq, task.dq);
    bring_out(plan, &of.k, own.dk, task.dk);
    bring_out(plan, &of.v, own.dv, task.dv);
}

clattn_status clattn_mpi_backward(clattn_mpi_plan *plan, cl_command_queue queue,
                                  const clattn_backward_tensors *tensors)
{
    static const clattn_backward_tensors nothing = {.struct_size = sizeof nothing};
    clattn_backward_tensors own;
    char why[CA_REASON_BYTES];
    clattn_status status;

    if (!plan) /* without a plan there is no communicator to agree on a fault */
        return CLATTN_INVALID_ARGUMENT;
    tensors = CA_READ(clattn_backward_tensors, "tensors", tensors, &own, why);
    if (!check_call(plan, CLATTN_BACKWARD, queue, tensors ? NULL : why,
                    "clattn_backward_tensors")) {
        tensors = &nothing;
    } else {
        (void)backward_tensors(plan, tensors);
        check_list(plan, "dslopes", plan->whole.dslopes, &tensors->dslopes, plan->whole.heads);
        check_list(plan, "dsinks", plan->whole.dsinks, &tensors->dsinks, plan->whole.heads);
        check_list(plan, "dfunction", plan->whole.dfunction, &tensors->dfunction,
                   function_gradients(plan));
    }
    const struct lists lists = LISTS_OF(tensors);
    if (!begin_call(plan, queue, &lists, &status))
        return status;
    run_backward(plan, tensors);
    status = end_call(plan);
    if (status == CLATTN_SUCCESS &&
        (plan->whole.dslopes || plan->whole.dsinks || plan->whole.dfunction)) {
        sum_lists(plan, tensors);
        status = end_call(plan);
    }
    return status;
}
