/* SPDX-License-Identifier: Apache-2.0 */
#include "search/search_state.h"

#include <math.h>
#include <stdlib.h>

static void *copy_first(const struct ca_search_options *options)
{
    size_t *first = malloc((options->num_first + 1) * sizeof *first);

    for (size_t n = 0; first && n < options->num_first; n++)
        first[n] = options->first[n];
    return first;
}

struct ca_search *ca_search_create(const struct ca_space *space,
                                   const struct ca_search_options *options)
{
    struct ca_search *search = calloc(1, sizeof *search);
    const size_t count = space->count + 1; /* malloc(0) may give NULL */

    if (!search)
        return NULL;
    search->space = space;
    search->options = *options;
    search->options.first = copy_first(options);
    search->random.state = options->seed;
    search->times = malloc(count * sizeof *search->times);
    search->evaluated = malloc(count * sizeof *search->evaluated);
    search->unseen = malloc(count * sizeof *search->unseen);
    search->place = malloc(count * sizeof *search->place);
    search->neighbours = malloc((ca_space_max_neighbours(space) + 1) * sizeof(size_t));
    search->beliefs = malloc(count * sizeof *search->beliefs);
    search->hopes = malloc((ca_space_max_neighbours(space) + 1) * sizeof(double));
    search->best = search->pending = CA_NO_CONFIG;
    if (!search->options.first || !search->times || !search->evaluated || !search->unseen ||
        !search->place || !search->neighbours || !search->beliefs || !search->hopes)
        goto failed;
    for (size_t config = 0; config < space->count; config++) {
        search->times[config] = NAN;
        search->unseen[config] = search->place[config] = config;
    }
    return search;
failed:
    ca_search_destroy(search);
    return NULL;
}

void ca_search_destroy(struct ca_search *search)
{
    if (!search)
        return;
    ca_model_destroy(search->model);
    free(search->values);
    free(search->hopes);
    free(search->beliefs);
    free(search->neighbours);
    free(search->place);
    free(search->unseen);
    free(search->evaluated);
    free(search->times);
    free((void *)search->options.first);
    free(search);
}

bool ca_search_suggest(struct ca_search *search, size_t *config)
{
    const struct ca_search_options *options = &search->options;

    *config = search->pending;
    if (search->num_evaluated == search->space->count)
        return false;
    if (search->pending != CA_NO_CONFIG)
        return true;
    while (search->num_first < options->num_first &&
           ca_is_known(search, options->first[search->num_first]))
        search->num_first++;
    search->pending = search->num_first == options->num_first ? ca_search_propose(search)
                                                              : options->first[search->num_first];
    *config = search->pending;
    return true;
}

static void evaluate(struct ca_search *search, size_t config, double time)
{
    const size_t last = search->space->count - search->num_evaluated - 1;
    const size_t moved = search->unseen[last];
    search->unseen[search->place[config]] = moved;
    search->place[moved] = search->place[config];
    search->evaluated[search->num_evaluated++] = config;
    search->times[config] = time;
}

/* Returns true if its time was only assumed until now. */
static bool end_belief(struct ca_search *search, size_t config)
{
    for (size_t n = 0; n < search->num_beliefs; n++) {
        if (search->beliefs[n] != config)
            continue;
        search->beliefs[n] = search->beliefs[--search->num_beliefs];
        return true;
    }
    return false;
}

void ca_search_report(struct ca_search *search, size_t config, double time)
{
    if (!(time > 0.0))
        time = INFINITY;
    if (end_belief(search, config))
        search->times[config] = time;
    else if (ca_is_known(search, config))
        return;
    else
        evaluate(search, config, time);
    if (search->times[config] < INFINITY &&
        (search->best == CA_NO_CONFIG || time < search->times[search->best]))
        search->best = config;
    if (config == search->pending)
        search->pending = CA_NO_CONFIG;
}

bool ca_search_believe(struct ca_search *search, size_t config)
{
    double time = INFINITY;

    if (ca_is_known(search, config))
        return false;
    if (search->best != CA_NO_CONFIG && search->model && ca_model_num_observed(search->model) > 0)
        time = fmax(exp(ca_model_predict(search->model, config).mean), search->times[search->best]);
    evaluate(search, config, time);
    search->beliefs[search->num_beliefs++] = config;
    search->pending = CA_NO_CONFIG;
    return true;
}

void ca_search_disbelieve(struct ca_search *search)
{
    const size_t count = search->num_evaluated;
    size_t kept = 0;

    if (search->num_beliefs == 0)
        return;
    for (size_t n = 0; n < count; n++) {
        const size_t config = search->evaluated[n];
        if (!end_belief(search, config)) {
            search->evaluated[kept++] = config;
            continue;
        }
        search->times[config] = NAN;
        search->place[config] = search->space->count - search->num_evaluated;
        search->unseen[search->place[config]] = config;
        search->num_evaluated--;
    }
    ca_model_destroy(search->model); /* a model cannot drop observations: it is made anew */
    search->model = NULL;
}

size_t ca_search_best(const struct ca_search *search)
{
    return search->best;
}

double ca_search_time(const struct ca_search *search, size_t config)
{
    return search->times[config];
}
