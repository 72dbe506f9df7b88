/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/options.h"

static bool layout_is_packed(const clattn_layout *layout)
{
    return !(layout->stride[0] | layout->stride[1] | layout->stride[2] | layout->stride[3]);
}

/* Returns why the problem cannot be distributed at all; NULL if it can. */
static const char *refusal_of(const clattn_problem *p, const int members)
{
    const clattn_layout *layouts[] = {&p->q, &p->k, &p->v, &p->o, &p->d_o, &p->dq, &p->dk, &p->dv};

    if (p->operation != CLATTN_FORWARD && p->operation != CLATTN_BACKWARD)
        return "only forward and backward are distributed";
    if (p->page_size || p->k_cache != CLATTN_CACHE_PLAIN || p->v_cache != CLATTN_CACHE_PLAIN)
        return "caches that are paged, quantized or of another dtype are not distributed";
    if (p->whole_q)
        return "a part of a larger attention is not distributed";
    if (p->block_q || p->mask_keys)
        return "block lists and mask_keys are not distributed";
    if (p->scores != CLATTN_SCORES_NONE)
        return "scores are not handed out by several ranks";
    if (p->dbias)
        return "dbias is not distributed";
    if (p->topk)
        return "lists of chosen keys are not divided among ranks";
    if (p->key_sums)
        return "key_sums are not handed out by several ranks";
    if (p->invariant)
        return "which rank has which keys decides bits, which an invariant problem does not allow";
    if (p->int8)
        return "the mean of keys, which precision=int8 takes, is not distributed";
    if (p->dlse)
        return "gradients of lse are not distributed";
    if (p->o_f32)
        return "o is stored in the problem's dtype";
    if ((p->bias || p->mask) && (members > 1 || p->total_q || p->total_kv))
        return "bias and mask are distributed neither where heads are exchanged nor in packed "
               "batches";
    if (p->dropout > 0.0f && (p->total_q || p->total_kv))
        return "dropout of packed batches is not distributed";
    for (size_t n = 0; n < sizeof layouts / sizeof *layouts; n++)
        if (!layout_is_packed(layouts[n]) && layouts[n]->stride[3] != 1)
            return "the innermost stride of a shard's tensors is 1";
    return NULL;
}

static bool rates_are_sound(const clattn_mpi_rates *r)
{
    const double speeds[] = {r->flops, r->copy_bandwidth, r->node_bandwidth, r->bandwidth};
    const double seconds[] = {r->overhead, r->node_latency, r->latency};
    bool sound = r->node_ranks >= 1;

    for (size_t n = 0; n < sizeof speeds / sizeof *speeds; n++)
        sound = sound && speeds[n] > 0 && speeds[n] <= 1e300;
    for (size_t n = 0; n < sizeof seconds / sizeof *seconds; n++)
        sound = sound && seconds[n] >= 0 && seconds[n] <= 1e300;
    return sound;
}

bool options_share_heads(const clattn_problem *whole, const int ranks, const int members)
{
    return ranks % members == 0 && whole->kv_heads % (size_t)members == 0 &&
           !refusal_of(whole, members);
}

int options_members(const clattn_mpi_options *options, const int ranks)
{
    return options->mode == CLATTN_MPI_HEADS        ? ranks
           : options->mode == CLATTN_MPI_HEADS_RING ? options->heads_ranks
                                                    : 1;
}

const clattn_mpi_options *options_read(const clattn_mpi_options *given, struct read_options *own,
                                       struct fault *fault)
{
    char why[CA_REASON_BYTES];
    const clattn_mpi_options *options =
        CA_READ(clattn_mpi_options, "options", given, &own->options, why);
    const clattn_mpi_rates *rates = options ? options->rates : NULL;

    if (rates)
        rates = CA_READ(clattn_mpi_rates, "options->rates", rates, &own->rates, why);
    if (!options || (options->rates && !rates)) {
        fault_set(fault, CLATTN_INVALID_ARGUMENT, "%s", why);
        return NULL;
    }
    if (rates != options->rates) {
        own->options = *options;
        own->options.rates = rates;
        options = &own->options;
    }
    return options;
}

void options_check(const clattn_problem *whole, const int ranks, const clattn_mpi_options *options,
                   struct fault *fault)
{
    const int members = options_members(options, ranks);
    char reason[200];

    if ((int)options->mode < CLATTN_MPI_AUTO || options->mode > CLATTN_MPI_SPLIT_KV)
        fault_set(fault, CLATTN_INVALID_ARGUMENT, "options->mode is %d, which is none",
                  (int)options->mode);
    else if ((options->mode == CLATTN_MPI_HEADS_RING) != (options->heads_ranks != 0))
        fault_set(fault, CLATTN_INVALID_ARGUMENT,
                  "options->heads_ranks is for CLATTN_MPI_HEADS_RING, which needs it");
    else if (members < 1 || ranks % members != 0)
        fault_set(fault, CLATTN_INVALID_ARGUMENT, "%d ranks are not a multiple of %d heads_ranks",
                  ranks, members);
    else if (!(options->speed >= 0.0 && options->speed <= 1e300))
        fault_set(fault, CLATTN_INVALID_ARGUMENT, "options->speed is %g, neither 0 nor above it",
                  options->speed);
    else if (options->rates && !rates_are_sound(options->rates))
        fault_set(fault, CLATTN_INVALID_ARGUMENT, "options->rates have one that cannot be");
    else if (whole->struct_size != sizeof *whole)
        fault_set(fault, CLATTN_INVALID_ARGUMENT,
                  "the problem was not made by clattn_problem_init()");
    else if (refusal_of(whole, members))
        fault_set(fault, CLATTN_UNSUPPORTED, "%s", refusal_of(whole, members));
    else if (options->mode == CLATTN_MPI_SPLIT_KV && whole->operation != CLATTN_FORWARD)
        fault_set(fault, CLATTN_UNSUPPORTED,
                  "CLATTN_MPI_SPLIT_KV is for decoding, which has no gradients");
    else if (whole->kv_heads % (size_t)members != 0)
        fault_set(fault, CLATTN_UNSUPPORTED, "%zu kv_heads cannot be shared by %d ranks",
                  whole->kv_heads, members);
    else if (clattn_problem_check(whole, reason, sizeof reason) != CLATTN_SUCCESS)
        fault_set(fault, CLATTN_INVALID_PROBLEM, "%s", reason);
}
