/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/distributed.h"
#include "bench/records/place.h"
#include "cli/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 1000000

static const char *const scalings[] = {"strong", "weak", NULL};

/* In the order of struct spent; older files have the first ones alone. */
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

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *numbers_of_ranks(const struct distributed *d, size_t key)
{
    json_t *list = json_array();

    for (size_t n = 0; n < d->ranks; n++)
        json_array_append_new(list,
                              json_real(*spent_number(&d->spent[n], key) / spent_keys[key].unit));
    return list;
}

json_t *distributed_json(const struct distributed *d)
{
    const bool compared = d->efficiency.low > 0.0 && isfinite(d->efficiency.high);
    json_t *object = json_pack(
        "{s:s, s:I, s:s, s:o, s:f, s:f, s:o, s:f, s:o}", "mode", d->mode, "heads_ranks",
        (json_int_t)d->heads_ranks, "scaling", scalings[d->weak], "problem",
        message_json(d->problem), "flops", d->flops, "bytes", d->bytes, "predicted_milliseconds",
        d->predicted > 0.0 ? json_real(1e3 * d->predicted) : json_null(), "bytes_sent",
        d->bytes_sent, "efficiency", compared ? place_interval_json(&d->efficiency) : json_null());

    for (size_t key = 0; object != NULL && key < SPENT_NUMBERS; key++)
        json_object_set_new(object, spent_keys[key].name, numbers_of_ranks(d, key));
    return object;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* As many ranks as the lists of times have numbers. */
static bool get_spent(const struct ca_json_place *in, struct distributed *d)
{
    for (size_t key = 0; key < SPENT_NUMBERS; key++) {
        const struct ca_json_place list = ca_place_child(in, spent_keys[key].name);
        if (list.value == NULL && spent_keys[key].optional)
            continue;
        if (!ca_place_array(&list, d->ranks, d->ranks))
            return false;
        for (size_t n = 0; n < d->ranks; n++) {
            const struct ca_json_place number = ca_place_element(&list, n);
            double *value = spent_number(&d->spent[n], key);
            if (!ca_place_number_here(&number, 0.0, value))
                return false;
            *value *= spent_keys[key].unit;
        }
    }
    return true;
}

static bool get_all(const struct ca_json_place *in, struct distributed *d)
{
    size_t scaling = 0;

    if (!ca_place_text(in, "mode", d->mode, sizeof d->mode) ||
        !ca_place_count(in, "heads_ranks", 1, MOST_RANKS, &d->heads_ranks) ||
        !ca_place_word(in, "scaling", scalings, &scaling) ||
        !ca_place_copy(in, "problem", false, &d->problem) ||
        !ca_place_number(in, "flops", 0.0, &d->flops) ||
        !ca_place_number(in, "bytes", 0.0, &d->bytes) ||
        !ca_place_number_or_null(in, "predicted_milliseconds", 0.0, 0.0, &d->predicted) ||
        !ca_place_number(in, "bytes_sent", 0.0, &d->bytes_sent) ||
        !place_interval(in, "efficiency", &d->efficiency))
        return false;
    d->weak = scaling == 1;
    d->predicted *= 1e-3;
    return get_spent(in, d);
}

bool distributed_read(const struct ca_json_place *outcome, struct distributed **distributed)
{
    const struct ca_json_place place = ca_place_child(outcome, "mpi");

    *distributed = NULL;
    if (place.value == NULL || json_is_null(place.value))
        return true;
    const struct ca_json_place list = ca_place_child(&place, spent_keys[0].name);
    if (!ca_place_object(&place) || !ca_place_array(&list, 1, MOST_RANKS))
        return false;
    *distributed = distributed_new(json_array_size(list.value));
    return *distributed != NULL ? get_all(&place, *distributed)
                                : ca_place_refuse(&list, "has no room in memory");
}
