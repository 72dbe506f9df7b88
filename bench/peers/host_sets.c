#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include "host_sets.h"
#include "values.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

void *host_allocate(size_t bytes)
{
    void *memory = NULL;

    return posix_memalign(&memory, LINE, bytes) == 0 ? memory : NULL;
}

static void *copy(const unsigned char *data, size_t bytes)
{
    void *memory = host_allocate(bytes);

    if (memory != NULL)
        memcpy(memory, data, bytes);
    return memory;
}

static bool make(struct host_set *set, const struct problem_data *data)
{
    const bool backward = data->problem.operation == CLATTN_BACKWARD;
    const size_t lse_bytes =
        data->o_bytes / value_bytes(data->problem.dtype) / data->problem.dim_v * sizeof(float);

    *set = (struct host_set){.q = copy(data->q, data->q_bytes),
                             .k = copy(data->k, data->k_bytes),
                             .v = copy(data->v, data->v_bytes)};
    if (!backward) {
        set->o = set->result[0] = host_allocate(data->o_bytes);
        return set->q != NULL && set->k != NULL && set->v != NULL && set->o != NULL;
    }
    set->o = copy(data->o, data->o_bytes);
    set->d_o = copy(data->d_o, data->o_bytes);
    set->lse = copy((const unsigned char *)data->lse, lse_bytes);
    set->result[0] = host_allocate(data->q_bytes);
    set->result[1] = host_allocate(data->k_bytes);
    set->result[2] = host_allocate(data->v_bytes);
    return set->q != NULL && set->k != NULL && set->v != NULL && set->o != NULL &&
           set->d_o != NULL && set->lse != NULL && set->result[0] != NULL &&
           set->result[1] != NULL && set->result[2] != NULL;
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
    *sets = (struct host_sets){.set = calloc(copies, sizeof *sets->set)};
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
