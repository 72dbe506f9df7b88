/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/host_sets.h"
#include "bench/peers/products.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

void *host_allocate(size_t bytes)
{
    return aligned_alloc(LINE, bytes / LINE * LINE + LINE);
}

static void *copy(const unsigned char *data, size_t bytes)
{
    void *memory = host_allocate(bytes);

    if (memory != NULL)
        memcpy(memory, data, bytes);
    return memory;
}

static bool make_projection(struct host_set *set, const struct problem_data *data)
{
    set->q = host_allocate(data->q_bytes);
    set->k = copy(data->k, data->k_bytes);
    set->o = set->result[0] = host_allocate(data->o_bytes);
    if (set->q == NULL)
        return false;
    product_gather(data, set->q);
    return set->k != NULL && set->o != NULL;
}

static bool make_backward(struct host_set *set, const struct problem_data *data)
{
    const clattn_problem *p = &data->problem;
    const size_t lse_bytes = p->batch * p->heads * p->seq_q * sizeof *data->lse;

    set->o = copy(data->o, data->o_bytes);
    set->d_o = copy(data->d_o, data->o_bytes);
    set->lse = copy((const unsigned char *)data->lse, lse_bytes);
    set->result[0] = host_allocate(data->q_bytes);
    set->result[1] = host_allocate(data->k_bytes);
    set->result[2] = host_allocate(data->v_bytes);
    return set->o != NULL && set->d_o != NULL && set->lse != NULL && set->result[0] != NULL &&
           set->result[1] != NULL && set->result[2] != NULL;
}

static bool make_forward(struct host_set *set, const struct problem_data *data)
{
    set->o = set->result[0] = host_allocate(data->o_bytes);
    return set->o != NULL;
}

static bool make(struct host_set *set, const struct problem_data *data)
{
    *set = (struct host_set){.q = NULL};
    if (data->problem.operation == CLATTN_PROJECTION)
        return make_projection(set, data);
    set->q = copy(data->q, data->q_bytes);
    set->k = copy(data->k, data->k_bytes);
    set->v = copy(data->v, data->v_bytes);
    return set->q != NULL && set->k != NULL && set->v != NULL &&
           (data->problem.operation == CLATTN_BACKWARD ? make_backward(set, data)
                                                       : make_forward(set, data));
}

static void measure_results(struct host_sets *sets, const struct problem_data *data)
{
    if (data->problem.operation == CLATTN_BACKWARD) {
        sets->result_bytes[0] = data->q_bytes;
        sets->result_bytes[1] = data->k_bytes;
        sets->result_bytes[2] = data->v_bytes;
    } else {
        sets->result_bytes[0] = data->o_bytes;
    }
}

bool host_sets_make(struct host_sets *sets, const struct problem_data *data, size_t copies,
                    struct message *why)
{
    *sets = (struct host_sets){.set = calloc(copies, sizeof *sets->set), .problem = &data->problem};
    bool ok = sets->set != NULL;

    measure_results(sets, data);
    while (ok && sets->count < copies)
        ok = make(&sets->set[sets->count++], data);
    return ok || message_set(why, "no memory for %zu sets of tensors", copies);
}

void host_sets_poison(const struct host_sets *sets)
{
    for (int n = 0; n < 3 && sets->result_bytes[n] > 0; n++) /* all bits set: NaN in each format */
        memset(sets->set[0].result[n], 0xff, sets->result_bytes[n]);
}

void host_sets_read(const struct host_sets *sets, void *results)
{
    char *to = results;

    if (sets->problem->operation == CLATTN_PROJECTION) {
        product_scatter(sets->problem, sets->set[0].result[0], results);
        return;
    }
    for (int n = 0; n < 3 && sets->result_bytes[n] > 0; n++, to += sets->result_bytes[n - 1])
        memcpy(to, sets->set[0].result[n], sets->result_bytes[n]);
}

static void release(struct host_set *set)
{
    free(set->q);
    free(set->k);
    free(set->v);
    for (int n = 0; n < 3; n++)
        if (set->result[n] != set->o)
            free(set->result[n]);
    free(set->o);
    free(set->d_o);
    free(set->lse);
}

void host_sets_free(struct host_sets *sets)
{
    for (size_t n = 0; n < sets->count; n++)
        release(&sets->set[n]);
    free(sets->set);
    memset(sets, 0, sizeof *sets);
}
