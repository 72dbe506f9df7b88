#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include "host_sets.h"

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
    *set = (struct host_set){.q = copy(data->q, data->q_bytes),
                             .k = copy(data->k, data->k_bytes),
                             .v = copy(data->v, data->v_bytes),
                             .o = host_allocate(data->o_bytes)};
    return set->q != NULL && set->k != NULL && set->v != NULL && set->o != NULL;
}

bool host_sets_make(struct host_sets *sets, const struct problem_data *data, size_t copies,
                    struct message *why)
{
    *sets = (struct host_sets){.set = calloc(copies, sizeof *sets->set), .o_bytes = data->o_bytes};
    bool ok = sets->set != NULL;

    while (ok && sets->count < copies)
        ok = make(&sets->set[sets->count++], data);
    return ok || message_set(why, "no memory for %zu sets of tensors", copies);
}

void host_sets_poison(const struct host_sets *sets)
{
    memset(sets->set[0].o, 0xff, sets->o_bytes); /* All bits set: NaN in each format. */
}

void host_sets_read(const struct host_sets *sets, void *o)
{
    memcpy(o, sets->set[0].o, sets->o_bytes);
}

void host_sets_free(struct host_sets *sets)
{
    for (size_t n = 0; n < sets->count; n++) {
        free(sets->set[n].q);
        free(sets->set[n].k);
        free(sets->set[n].v);
        free(sets->set[n].o);
    }
    free(sets->set);
    memset(sets, 0, sizeof *sets);
}
