/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/distributed.h"

#include <stdlib.h>

static const char *const scalings[] = {"strong", "weak", NULL};

/* Members in the order of struct spent; older files have only the first ones. */
static const struct {
    const char *name;
    double unit;
    bool optional;
} spent_keys[SPENT_NUMBERS] = {{"computing_milliseconds", 1e-3, false},
                               {"waiting_milliseconds", 1e-3, false},
                               {"transfer_milliseconds", 1e-3, false},
                               {"host_milliseconds", 1e-3, true},
                               {"queries", 1.0, true}};

double *spent_number(struct spent *spent, size_t key)
{
    double *const of[SPENT_NUMBERS] = {&spent->computing, &spent->waiting, &spent->transfer,
                                       &spent->host, &spent->queries};

    return of[key];
}

struct distributed *distributed_new(size_t ranks)
{
    struct distributed *made = calloc(1, sizeof *made);

    if (made == NULL)
        return NULL;
    made->ranks = ranks;
    made->spent = calloc(ranks + 1, sizeof *made->spent);
    if (made->spent != NULL)
        return made;
    free(made);
    return NULL;
}

void distributed_free(struct distributed *distributed)
{
    if (distributed == NULL)
        return;
    free(distributed->problem);
    free(distributed->spent);
    free(distributed);
}

/* Lists with a number for each rank. */
static bool describe_spent(struct archive *a, struct distributed *d)
{
    bool ok = true;

    for (size_t key = 0; ok && key < SPENT_NUMBERS; key++)
        ok = (spent_keys[key].optional && archive_lacks(a, spent_keys[key].name)) ||
             archive_numbers(a, spent_keys[key].name, spent_keys[key].unit,
                             spent_number(d->spent, key), sizeof *d->spent, d->ranks);
    return ok;
}

static bool describe(struct archive *a, void *what)
{
    struct distributed *d = what;
    size_t scaling = d->weak;

    if (!archive_chars(a, "mode", d->mode, sizeof d->mode) ||
        !archive_size(a, "heads_ranks", 1, DISTRIBUTED_MOST_RANKS, &d->heads_ranks) ||
        !archive_word(a, "scaling", scalings, &scaling) ||
        !archive_text(a, "problem", &d->problem) || !archive_number(a, "flops", 1.0, &d->flops) ||
        !archive_number(a, "bytes", 1.0, &d->bytes) ||
        !archive_number_or_null(a, "predicted_milliseconds", 1e-3, 0.0, &d->predicted) ||
        !archive_number(a, "bytes_sent", 1.0, &d->bytes_sent) ||
        !archive_interval(a, "efficiency", &d->efficiency))
        return false;
    d->weak = scaling == 1;
    return describe_spent(a, d);
}

/* Makes room for as many ranks as the first list has numbers. */
static bool make_room(const struct ca_json_place *object, struct distributed **distributed)
{
    const struct ca_json_place list = ca_place_child(object, spent_keys[0].name);

    if (!ca_place_object(object) || !ca_place_array(&list, 1, DISTRIBUTED_MOST_RANKS))
        return false;
    *distributed = distributed_new(ca_json_size(list.value));
    return *distributed != NULL || ca_place_refuse(&list, "has no room in memory");
}

bool distributed_describe(struct archive *a, const char *key, struct distributed **distributed)
{
    if (archive_lacks(a, key))
        return true;
    if (a->from != NULL) {
        const struct ca_json_place object = ca_place_child(a->from, key);
        if (!ca_json_is(object.value, CA_JSON_NULL) && !make_room(&object, distributed))
            return false;
    }
    return archive_object_or_null(a, key, *distributed != NULL, describe, *distributed);
}
