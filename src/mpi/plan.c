/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/execute.h"
#include "mpi/options.h"
#include "mpi/rates/cost.h"
#include "mpi/rates/measure.h"
#include "mpi/shards.h"

#include <clattn/version.h>
#include <stdlib.h>
#include <string.h>

/* ---- what ranks agree on ------------------------------------------------------------------------ */

static uint64_t hash_rates(uint64_t hash, const clattn_mpi_rates *r)
{
    if (!r)
        return hash;
    const double all[] = {r->flops,        r->copy_bandwidth, r->overhead, r->node_ranks,
                          r->node_latency, r->node_bandwidth, r->latency,  r->bandwidth};
    return hash_more(hash, all, sizeof all);
}

/* A hash of everything that must be the same on all ranks. */
static uint64_t hash_plan(const clattn_mpi_plan *plan, const clattn_mpi_options *options)
{
    uint64_t hash = HASH_BEGIN;
    char text[1024] = "";

    (void)clattn_problem_print(&plan->whole, text, sizeof text, NULL);
    hash = hash_more(hash, text, strlen(text));
    hash = hash_more(hash, CLATTN_VERSION_STRING, sizeof CLATTN_VERSION_STRING);
    hash = hash_more(hash, &options->mode, sizeof options->mode);
    hash = hash_more(hash, &options->heads_ranks, sizeof options->heads_ranks);
    return hash_rates(hash, options->rates);
}

/* Finds every rank's speed; all are equal if no rank gives one. */
static void find_speeds(clattn_mpi_plan *plan, const clattn_mpi_options *options, double *speeds)
{
    bool some = false, all = true;

    MPI_Allgather(&options->speed, 1, MPI_DOUBLE, speeds, 1, MPI_DOUBLE, plan->communicator);
    for (int n = 0; n < plan->ranks; n++) {
        some = some || speeds[n] > 0;
        all = all && speeds[n] > 0;
    }
    for (int n = 0; n < plan->ranks && !some; n++)
        speeds[n] = 1;
    if (some && !all)
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT,
                  "options->speed is 0 on some ranks and not on others");
}

/* Collective: chooses the mode, by the cost model where the options leave it open, and makes its
 * prediction if there are rates. */
static clattn_status choose_mode(clattn_mpi_plan *plan, const clattn_mpi_options *options,
                                 const double *speeds)
{
    const bool open = options->mode == CLATTN_MPI_AUTO && plan->ranks > 1;
    clattn_mpi_rates measured;
    double sum = 0;

    plan->prediction = (clattn_mpi_prediction){
        .mode = options->mode == CLATTN_MPI_AUTO ? CLATTN_MPI_RING : options->mode,
        .heads_ranks = options_members(options, plan->ranks)};
    for (int n = 0; n < plan->ranks; n++)
        sum += speeds[n];
    if (!options->rates && open) {
        const clattn_status status =
            measure_rates(plan->communicator, plan->context, &plan->whole, options->plan,
                          speeds[plan->rank] * plan->ranks / sum, &measured);
        if (status != CLATTN_SUCCESS)
            return status;
    }
    if ((options->rates || open) &&
        !cost_of_options(&plan->whole, plan->ranks, speeds, options,
                         options->rates ? options->rates : &measured, &plan->prediction))
        fault_set(&plan->fault, CLATTN_OUT_OF_MEMORY, "no host memory for a cost model");
    return fault_agree(plan->communicator, plan->context, &plan->fault);
}

/* ---- making it ---------------------------------------------------------------------------------- */

/* The layout of a shard's tensor: steps that are longer than one along the sequence shrink as its rows do. */
static clattn_layout shard_layout(clattn_mpi_plan *plan, const clattn_layout *whole,
                                  const size_t whole_rows, const size_t rows)
{
    clattn_layout layout = *whole;

    for (int n = 0; n < 4; n++) {
        if (n == 2 || whole->stride[2] == 0 || layout.stride[n] <= whole->stride[2])
            continue;
        if (whole_rows == 0 || layout.stride[n] % whole_rows != 0)
            fault_set(
                &plan->fault, CLATTN_UNSUPPORTED,
                "a stride of %zu outside of one of %zu along the sequence is no multiple of its "
                "%zu rows",
                layout.stride[n], whole->stride[2], whole_rows);
        else if (rows > 0)
            layout.stride[n] = layout.stride[n] / whole_rows * rows;
    }
    return layout;
}

/* Finds the problem of this rank's tensors. */
static void find_local(clattn_mpi_plan *plan)
{
    const struct shard *shard = &plan->partition.rank[plan->rank];
    const size_t all_q = whole_queries(&plan->whole), all_kv = whole_keys(&plan->whole);
    const size_t queries = chunks_count(shard->q), keys = chunks_count(shard->kv);
    clattn_problem *local = &plan->local;

    *local = plan->whole;
    clattn_layout *const of_queries[] = {&local->q,  &local->o,           &local->d_o,
                                         &local->dq, &local->bias_layout, &local->mask_layout};
    clattn_layout *const of_keys[] = {&local->k, &local->v, &local->dk, &local->dv};
    for (size_t n = 0; n < sizeof of_queries / sizeof *of_queries; n++)
        *of_queries[n] = shard_layout(plan, of_queries[n], all_q, queries);
    for (size_t n = 0; n < sizeof of_keys / sizeof *of_keys; n++)
        *of_keys[n] = shard_layout(plan, of_keys[n], all_kv, keys);
    *(local->total_q ? &local->total_q : &local->seq_q) = queries;
    *(local->total_kv ? &local->total_kv : &local->seq_kv) = keys;
}

static void make_communicators(clattn_mpi_plan *plan)
{
    MPI_Comm_split(plan->communicator, plan->place, plan->member, &plan->members);
    MPI_Comm_split(plan->communicator, plan->member, plan->place, &plan->ring);
}

static void make_memory(clattn_mpi_plan *plan)
{
    const size_t batch = plan->whole.batch;
    const size_t members = (size_t)plan->partition.heads_ranks;
    struct lengths *lengths = &plan->lengths;

    plan->parts = calloc(parts_room(&plan->whole), sizeof *plan->parts);
    plan->member_messages = calloc(4 * members, sizeof *plan->member_messages);
    plan->ints = calloc(batch + 1, sizeof *plan->ints);
    plan->list_sums =
        calloc(2 * plan->whole.heads + function_gradients(plan), sizeof *plan->list_sums);
    bool ok = plan->parts && plan->member_messages && plan->ints && plan->list_sums;
    cl_int **const lists[] = {plan->whole.q_lengths ? &lengths->q_lengths : NULL,
                              plan->whole.kv_lengths ? &lengths->kv_lengths : NULL,
                              plan->whole.total_q ? &lengths->q_starts : NULL,
                              plan->whole.total_kv ? &lengths->kv_starts : NULL};
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++)
        if (lists[n]) {
            *lists[n] = calloc(batch + 1, sizeof **lists[n]);
            ok = ok && *lists[n];
        }
    if (!ok)
        fault_set(&plan->fault, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
}

/* The lengths before any are known: the longest ones. */
static void fill_lengths(clattn_mpi_plan *plan)
{
    const clattn_problem *p = &plan->whole;
    const struct lengths *lengths = &plan->lengths;

    for (size_t b = 0; b <= p->batch && fault_none(&plan->fault); b++) {
        const size_t share = p->batch ? b : 0, of = p->batch ? p->batch : 1;
        if (lengths->q_lengths)
            lengths->q_lengths[b] = (cl_int)p->seq_q;
        if (lengths->kv_lengths)
            lengths->kv_lengths[b] = (cl_int)p->seq_kv;
        if (lengths->q_starts)
            lengths->q_starts[b] = (cl_int)(p->total_q / of * share);
        if (lengths->kv_starts)
            lengths->kv_starts[b] = (cl_int)(p->total_kv / of * share);
    }
}

/* Makes the plans and takes the memory that an execution needs. */
static void rehearse(clattn_mpi_plan *plan)
{
    plan->dry = true;
    fill_lengths(plan);
    if (fault_none(&plan->fault)) {
        if (plan->whole.operation == CLATTN_FORWARD)
            run_forward(plan,
                        &(clattn_forward_tensors){.struct_size = sizeof(clattn_forward_tensors)});
        else
            run_backward(
                plan, &(clattn_backward_tensors){.struct_size = sizeof(clattn_backward_tensors)});
    }
    plan->dry = false;
    plan->times = (struct times){0};
}

static void make_device(clattn_mpi_plan *plan)
{
    find_local(plan);
    device_open(plan);
    make_memory(plan);
    rehearse(plan);
}

static void set_sizes(clattn_mpi_plan *plan, const clattn_mpi_options *options,
                      const double *speeds)
{
    const int members = plan->prediction.heads_ranks;

    plan->options = options->plan;
    plan->mode = plan->prediction.mode;
    plan->place = plan->rank / members;
    plan->member = plan->rank % members;
    plan->heads = plan->whole.heads / (size_t)members;
    plan->kv_heads = plan->whole.kv_heads / (size_t)members;
    plan->first_head = plan->heads * (size_t)plan->member;
    if (!partition_make(&plan->whole, plan->ranks, members, plan->mode == CLATTN_MPI_SPLIT_KV,
                        speeds, &plan->partition))
        fault_set(&plan->fault, CLATTN_OUT_OF_MEMORY, "no host memory for %d shards", plan->ranks);
}

/* Ranks agree after each part that may fail on one of them and that the next cannot do without. */
static clattn_status make_plan(clattn_mpi_plan *plan, const clattn_mpi_options *options)
{
    double *speeds = calloc((size_t)plan->ranks, sizeof *speeds);
    clattn_status status;

    options_check(&plan->whole, plan->ranks, options, &plan->fault);
    if (!speeds)
        fault_set(&plan->fault, CLATTN_OUT_OF_MEMORY, "no host memory for %d speeds", plan->ranks);
    status = fault_agree_alike(plan->communicator, plan->context, &plan->fault,
                               hash_plan(plan, options), "problem, options and version of clattn");
    if (status == CLATTN_SUCCESS) {
        find_speeds(plan, options, speeds);
        status = fault_agree(plan->communicator, plan->context, &plan->fault);
    }
    if (status == CLATTN_SUCCESS)
        status = choose_mode(plan, options, speeds);
    if (status == CLATTN_SUCCESS) {
        set_sizes(plan, options, speeds);
        status = fault_agree(plan->communicator, plan->context, &plan->fault);
    }
    if (status == CLATTN_SUCCESS) {
        make_communicators(plan);
        make_device(plan);
        status = fault_agree(plan->communicator, plan->context, &plan->fault);
    }
    free(speeds);
    return status;
}

clattn_status clattn_mpi_plan_create(MPI_Comm communicator, clattn_context *context,
                                     const clattn_problem *whole, const clattn_mpi_options *options,
                                     clattn_mpi_plan **plan)
{
    const clattn_mpi_options defaults = {.struct_size = sizeof defaults};
    struct fault fault = {.status = CLATTN_SUCCESS};
    struct read_options own;
    clattn_mpi_plan *made = NULL;

    if (plan)
        *plan = NULL;
    if (communicator == MPI_COMM_NULL) { /* there are no ranks to agree with */
        if (context)
            clattn_context_log(context, CLATTN_LOG_ERROR,
                               "clattn_mpi_plan_create: communicator must not be null");
        return CLATTN_INVALID_ARGUMENT;
    }
    const clattn_mpi_options *const chosen =
        options ? options_read(options, &own, &fault) : &defaults;
    if (!context || !whole || !plan)
        fault_set(&fault, CLATTN_INVALID_ARGUMENT,
                  "clattn_mpi_plan_create: context, problem and plan must not be null");
    else if (!(made = calloc(1, sizeof *made)))
        fault_set(&fault, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    const clattn_status begun = fault_agree(communicator, context, &fault);
    if (begun != CLATTN_SUCCESS) {
        free(made);
        return begun;
    }
    MPI_Comm_dup(communicator, &made->communicator);
    made->members = made->ring = MPI_COMM_NULL;
    MPI_Comm_rank(communicator, &made->rank);
    MPI_Comm_size(communicator, &made->ranks);
    MPI_Type_contiguous(PAGE_BYTES, MPI_BYTE, &made->page);
    MPI_Type_commit(&made->page);
    made->context = context;
    made->whole = *whole;
    const clattn_status status = make_plan(made, chosen);
    if (status != CLATTN_SUCCESS) {
        clattn_mpi_plan_release(made);
        return status;
    }
    *plan = made;
    return CLATTN_SUCCESS;
}

void clattn_mpi_plan_release(clattn_mpi_plan *plan)
{
    if (!plan)
        return;
    device_close(plan);
    partition_free(&plan->partition);
    free(plan->parts);
    free(plan->member_messages);
    free(plan->ints);
    free(plan->list_sums);
    free(plan->lengths.q_lengths);
    free(plan->lengths.kv_lengths);
    free(plan->lengths.q_starts);
    free(plan->lengths.kv_starts);
    MPI_Type_free(&plan->page);
    if (plan->members != MPI_COMM_NULL)
        MPI_Comm_free(&plan->members);
    if (plan->ring != MPI_COMM_NULL)
        MPI_Comm_free(&plan->ring);
    MPI_Comm_free(&plan->communicator);
    free(plan);
}

/* ---- what it is --------------------------------------------------------------------------------- */

clattn_status clattn_mpi_plan_shard(const clattn_mpi_plan *plan, const int rank,
                                    clattn_mpi_shard *shard)
{
    clattn_mpi_shard found = {.struct_size = sizeof found};
    char why[CA_REASON_BYTES];

    if (!plan || !CA_FILLABLE(clattn_mpi_shard, "shard", shard, why) || rank < 0 ||
        rank >= plan->ranks)
        return CLATTN_INVALID_ARGUMENT;
    for (int n = 0; n < CHUNKS; n++) {
        const struct shard *of = &plan->partition.rank[rank];
        found.q_first[n] = of->q[n].first;
        found.q_count[n] = of->q[n].count;
        found.kv_first[n] = of->kv[n].first;
        found.kv_count[n] = of->kv[n].count;
    }
    ca_struct_fill(shard, &found, sizeof found);
    return CLATTN_SUCCESS;
}

clattn_status clattn_mpi_plan_problem(const clattn_mpi_plan *plan, clattn_problem *local)
{
    if (!plan || !local)
        return CLATTN_INVALID_ARGUMENT;
    *local = plan->local;
    return CLATTN_SUCCESS;
}

clattn_status clattn_mpi_plan_describe(const clattn_mpi_plan *plan, clattn_mpi_plan_info *info)
{
    char why[CA_REASON_BYTES];

    if (!plan || !CA_FILLABLE(clattn_mpi_plan_info, "info", info, why))
        return CLATTN_INVALID_ARGUMENT;
    const clattn_mpi_plan_info known = {.mode = plan->mode,
                                        .heads_ranks = plan->partition.heads_ranks,
                                        .places = plan->partition.places,
                                        .seconds = plan->times.all,
                                        .seconds_computing = plan->times.computing,
                                        .seconds_waiting = plan->times.waiting,
                                        .seconds_staging = plan->times.staging,
                                        .bytes_sent = plan->times.bytes_sent,
                                        .parts = plan->times.parts,
                                        .seconds_predicted = plan->prediction.seconds};
    ca_struct_fill(info, &known, sizeof known);
    return CLATTN_SUCCESS;
}
