/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/rates/cost.h"
#include "mpi/options.h"

#include <math.h>
#include <stdlib.h>

/* If there are more places than this, only that many, evenly spread, are examined. */
#define SAMPLED_PLACES 16

struct cost {
    const clattn_problem *whole;
    const struct partition *partition;
    const double *speeds;
    double mean_speed;
    const clattn_mpi_rates *rates;
    size_t heads, kv_heads, batches; /* heads of a rank, and batches of the tensors of keys */
    struct part *parts;
    clattn_mpi_prediction sum;
};

static double greater(const double a, const double b)
{
    return a > b ? a : b;
}

static bool is_packed(const clattn_problem *whole)
{
    return whole->total_q || whole->total_kv;
}

static double element_bytes_of(const clattn_problem *whole)
{
    return whole->dtype == CLATTN_F32 ? 4 : 2;
}

/* ---- what a step computes ----------------------------------------------------------------------- */

/* The slowest device of a place, as a share of the mean. */
static double place_share(const struct cost *c, const int place)
{
    const int members = c->partition->heads_ranks;
    double slowest = HUGE_VAL;

    for (int n = place * members; n < (place + 1) * members; n++)
        slowest = fmin(slowest, c->speeds[n]);
    return slowest / c->mean_speed;
}

/* Seconds of an execution of a part on a device whose rates->flops are `share` times the mean's. */
static double seconds_of_part(const struct cost *c, const struct part *part, const double share)
{
    clattn_problem p = part_shape(c->whole, c->heads, c->kv_heads, part), plain;

    clattn_problem_init(&plain);
    p.q = p.k = p.v = p.o = p.d_o = p.dq = p.dk = p.dv = plain.q;
    p.bias = p.mask = 0;
    p.bias_layout = p.mask_layout = plain.bias_layout;
    return c->rates->overhead + clattn_problem_flops(&p) / (c->rates->flops * share);
}

/* Seconds of a place's chunk of queries against keys. Where sequences of packed batches lie is not
 * known: pairs count as if they were spread evenly. */
static double seconds_of_pair(const struct cost *c, const int place, const struct span q,
                              const struct span kv)
{
    const struct lengths none = {NULL, NULL, NULL, NULL};
    const double share = place_share(c, place);
    double seconds = 0;

    if (q.count == 0 || kv.count == 0)
        return 0;
    if (is_packed(c->whole))
        return c->rates->overhead + clattn_problem_flops(c->whole) * (double)c->heads /
                                        (double)c->whole->heads * (double)q.count /
                                        (double)whole_queries(c->whole) * (double)kv.count /
                                        (double)whole_keys(c->whole) / (c->rates->flops * share);
    const size_t count = parts_of(c->whole, &none, q, kv, c->parts);
    for (size_t n = 0; n < count; n++)
        seconds += seconds_of_part(c, &c->parts[n], share);
    return seconds;
}

/* Does so as ring.c does: a place's queries against the keys of another. */
static double seconds_of_places(const struct cost *c, const int of_queries, const int of_keys)
{
    const struct shard *q = &c->partition->place[of_queries], *kv = &c->partition->place[of_keys];
    struct chunk_pair pairs[CHUNKS * CHUNKS];
    const int count = chunk_pairs(c->whole, q, kv, pairs);
    double seconds = 0;

    for (int n = 0; n < count; n++)
        seconds += pairs[n].joined
                       ? seconds_of_part(c, &pairs[n].part, place_share(c, of_queries))
                       : seconds_of_pair(c, of_queries, q->q[pairs[n].q], kv->kv[pairs[n].kv]);
    return seconds;
}

static int sample_stride(const struct cost *c)
{
    return (c->partition->places + SAMPLED_PLACES - 1) / SAMPLED_PLACES;
}

/* ---- what travels ------------------------------------------------------------------------------- */

static bool one_node(const struct cost *c)
{
    return c->partition->ranks <= c->rates->node_ranks;
}

/* Every rank sends that many bytes to the one that is `stride` further on; the same number of ranks
 * of each node send to another node. */
static double shift_seconds(const struct cost *c, const double bytes, const int stride)
{
    const clattn_mpi_rates *r = c->rates;

    if (one_node(c))
        return r->node_latency + bytes / r->node_bandwidth;
    const double leaving = stride < r->node_ranks ? stride : r->node_ranks;
    return r->latency + bytes / fmin(r->node_bandwidth, r->bandwidth / leaving);
}

/* The time in which each of `count` consecutive ranks sends so many bytes to each of the others. */
static double to_all_seconds(const struct cost *c, const double bytes, const int count)
{
    const clattn_mpi_rates *r = c->rates;
    const int near = count < r->node_ranks ? count : r->node_ranks;
    const double within = bytes * (near - 1) / r->node_bandwidth;
    const double between = bytes * near * (count - near) / r->bandwidth;

    return (near < count ? r->latency : r->node_latency) + greater(within, between);
}

static void add_waiting(struct cost *c, const double seconds)
{
    c->sum.seconds_waiting += seconds;
    c->sum.seconds += seconds;
}

static void add_copies(struct cost *c, const double bytes)
{
    c->sum.seconds_staging += bytes / c->rates->copy_bandwidth;
    c->sum.seconds += bytes / c->rates->copy_bandwidth;
}

/* The seconds of a step that computes while messages travel. */
static void add_step(struct cost *c, const double computing, const double sending)
{
    c->sum.seconds_computing += computing;
    c->sum.seconds += computing;
    if (sending > computing)
        add_waiting(c, sending - computing);
}

/* Bytes of keys and values of so many rows, of a rank's heads; gradients are f32. */
static double pair_bytes(const struct cost *c, const double rows, const double element)
{
    return (double)c->batches * (double)c->kv_heads * rows *
           (double)(c->whole->dim_qk + c->whole->dim_v) * element;
}

/* ---- modes -------------------------------------------------------------------------------------- */

static double most_keys(const struct cost *c)
{
    double most = 0;

    for (int n = 0; n < c->partition->places; n++)
        most = greater(most, (double)chunks_count(c->partition->place[n].kv));
    return most;
}

/* The cost of ring.c, given the seconds of computing of each step. Keys are passed on while a later step needs them,
 * gradients from the first to the last step that adds to them, and then to their owner. */
static void cost_of_ring(struct cost *c, const double *computing)
{
    const int places = c->partition->places, stride = c->partition->heads_ranks;
    const bool backward = c->whole->operation == CLATTN_BACKWARD;
    const double keys = pair_bytes(c, most_keys(c), element_bytes_of(c->whole));
    const double gradients = backward ? pair_bytes(c, most_keys(c), sizeof(float)) : 0;
    int first = 0, last = 0;

    for (int t = 1; t < places; t++)
        if (computing[t] > 0) {
            first = first ? first : t;
            last = t;
        }
    if (last > 0)
        add_copies(c, keys);
    for (int t = 0; t < places; t++) {
        const bool join = backward && first > 0 && t >= first && t <= last;
        const double sent = (t < last ? keys : 0) + (join && t > first ? gradients : 0);
        add_step(c, computing[t], sent > 0 ? shift_seconds(c, sent, stride) : 0);
        c->sum.bytes_sent += (t < last ? keys : 0) + (join ? gradients : 0);
        if (t + 1 < places && computing[t + 1] > 0)
            add_copies(c, keys);
        if (join)
            add_copies(c, t > first ? 2 * gradients : gradients);
    }
    if (backward && last > 0) {
        add_waiting(c, shift_seconds(c, gradients, stride));
        add_copies(c, gradients);
    }
}

static bool ring_steps(struct cost *c)
{
    const int places = c->partition->places;
    double *computing = calloc((size_t)places, sizeof *computing);

    if (!computing)
        return false;
    for (int t = 0; t < places; t++)
        for (int n = 0; n < places; n += sample_stride(c))
            computing[t] =
                greater(computing[t], seconds_of_places(c, n, (n - t + places) % places));
    cost_of_ring(c, computing);
    free(computing);
    return true;
}

/* Queries of all ranks, with o and lse in f32. */
static void cost_of_split(struct cost *c)
{
    const struct span all = {0, whole_queries(c->whole)};
    const int places = c->partition->places;
    const double state = (double)whole_batches(c->whole, false) * (double)c->heads *
                         (double)all.count * (double)(c->whole->dim_v + 1) * sizeof(float);
    double slowest = 0;

    for (int n = 0; n < places; n++)
        slowest = greater(slowest, seconds_of_pair(c, n, all, c->partition->place[n].kv[0]));
    add_step(c, slowest, 0);
    if (places == 1)
        return;
    add_copies(c, state * (1 + places));
    add_waiting(c, to_all_seconds(c, state, places));
    c->sum.bytes_sent += state * (places - 1);
    c->sum.bytes_held += state;
}

/* Rows of all heads become all rows of some heads: of so many bytes of a rank. */
static void add_exchange(struct cost *c, const double bytes)
{
    const int members = c->partition->heads_ranks;

    add_copies(c, 2 * bytes);
    add_waiting(c, to_all_seconds(c, bytes / members, members));
    c->sum.bytes_sent += bytes * (members - 1) / members;
    c->sum.bytes_held += bytes;
}

static void cost_of_exchanges(struct cost *c)
{
    const clattn_problem *p = c->whole;
    const double element = element_bytes_of(p);
    const double rows = (double)whole_batches(p, false) * (double)whole_queries(p) *
                        (double)p->heads / c->partition->ranks;
    const double q = rows * (double)p->dim_qk * element, o = rows * (double)p->dim_v * element;
    const double kv = (double)c->batches * (double)whole_keys(p) * (double)p->kv_heads *
                      (double)(p->dim_qk + p->dim_v) * element / c->partition->ranks;

    if (c->partition->heads_ranks == 1)
        return;
    add_exchange(c, q);
    add_exchange(c, kv);
    add_exchange(c, o);
    if (p->operation == CLATTN_BACKWARD) {
        add_exchange(c, o); /* do */
        add_exchange(c, q); /* dq */
        add_exchange(c, kv);
    }
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* Adds the bytes that a rank needs besides its operands: sums in f32 of its rows, the results of a part, and the keys of
 * other ranks with their gradients. */
static void add_memory(struct cost *c, const clattn_mpi_mode mode)
{
    const clattn_problem *p = c->whole;
    const bool backward = p->operation == CLATTN_BACKWARD;
    const struct shard *shard = &c->partition->place[0];
    const double element = element_bytes_of(p), own = (double)chunks_count(shard->kv);
    const double row = (double)whole_batches(p, false) * (double)c->heads *
                       (double)(backward ? p->dim_qk : p->dim_v);
    struct chunk_pair own_pairs[CHUNKS * CHUNKS];
    const bool joined = mode != CLATTN_MPI_SPLIT_KV && chunk_pairs(p, shard, shard, own_pairs) == 1;
    const double part_queries = joined ? (double)chunks_count(shard->q) : (double)shard->q[0].count;
    const double part_keys = joined ? own : (double)shard->kv[0].count;
    const double sums =
        state_in_o(p, mode == CLATTN_MPI_SPLIT_KV) ? 0 : (double)chunks_count(shard->q);

    c->sum.bytes_held += row * sizeof(float) * (sums + part_queries);
    if (backward)
        c->sum.bytes_held += pair_bytes(c, part_keys + 3 * own, sizeof(float));
    if (mode != CLATTN_MPI_SPLIT_KV && c->partition->places > 1)
        c->sum.bytes_held += 2 * pair_bytes(c, own, element);
}

/* ---- together ----------------------------------------------------------------------------------- */

/* Predicts the cost of a mode in which so many ranks exchange heads. False without memory. */
static bool cost_of_mode(const clattn_problem *whole, const int ranks, const double *speeds,
                         const clattn_mpi_mode mode, const int members,
                         const clattn_mpi_rates *rates, clattn_mpi_prediction *prediction)
{
    struct partition partition;

    if (!partition_make(whole, ranks, members, mode == CLATTN_MPI_SPLIT_KV, speeds, &partition))
        return false;
    struct cost c = {.whole = whole,
                     .partition = &partition,
                     .speeds = speeds,
                     .rates = rates,
                     .heads = whole->heads / (size_t)members,
                     .kv_heads = whole->kv_heads / (size_t)members,
                     .batches = whole_batches(whole, true),
                     .parts = calloc(parts_room(whole), sizeof *c.parts),
                     .sum = {.struct_size = sizeof c.sum, .mode = mode, .heads_ranks = members}};
    bool ok = c.parts != NULL;

    for (int n = 0; n < ranks; n++)
        c.mean_speed += speeds[n] / ranks;
    if (ok) {
        cost_of_exchanges(&c);
        add_memory(&c, mode);
        if (mode == CLATTN_MPI_SPLIT_KV)
            cost_of_split(&c);
        else
            ok = ring_steps(&c);
    }
    if (ok)
        *prediction = c.sum;
    free(c.parts);
    partition_free(&partition);
    return ok;
}

bool cost_of_options(const clattn_problem *whole, const int ranks, const double *speeds,
                     const clattn_mpi_options *options, const clattn_mpi_rates *rates,
                     clattn_mpi_prediction *prediction)
{
    clattn_mpi_prediction best, other;

    if (options->mode != CLATTN_MPI_AUTO)
        return cost_of_mode(whole, ranks, speeds, options->mode, options_members(options, ranks),
                            rates, prediction);
    if (!cost_of_mode(whole, ranks, speeds, CLATTN_MPI_RING, 1, rates, &best))
        return false;
    for (int members = 2; members <= ranks; members++) {
        const clattn_mpi_mode mode = members == ranks ? CLATTN_MPI_HEADS : CLATTN_MPI_HEADS_RING;
        if (!options_share_heads(whole, ranks, members))
            continue;
        if (!cost_of_mode(whole, ranks, speeds, mode, members, rates, &other))
            return false;
        if (other.seconds < 0.95 * best.seconds)
            best = other;
    }
    *prediction = best;
    return true;
}

/* ---- public ------------------------------------------------------------------------------------- */

clattn_status clattn_mpi_predict(const clattn_problem *whole, const int ranks,
                                 const clattn_mpi_options *options,
                                 clattn_mpi_prediction *prediction)
{
    struct fault fault = {.status = CLATTN_SUCCESS};
    struct read_options own;
    clattn_mpi_prediction found;
    char why[CA_REASON_BYTES];

    if (!whole || ranks < 1 || !CA_FILLABLE(clattn_mpi_prediction, "prediction", prediction, why))
        return CLATTN_INVALID_ARGUMENT;
    options = options_read(options, &own, &fault);
    if (options)
        options_check(whole, ranks, options, &fault);
    if (!fault_none(&fault))
        return fault.status;
    if (!options->rates)
        return CLATTN_INVALID_ARGUMENT;
    double *speeds = calloc((size_t)ranks, sizeof *speeds);
    for (int n = 0; speeds && n < ranks; n++)
        speeds[n] = 1;
    const bool ok =
        speeds && cost_of_options(whole, ranks, speeds, options, options->rates, &found);
    free(speeds);
    if (ok)
        ca_struct_fill(prediction, &found, sizeof found);
    return ok ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}
