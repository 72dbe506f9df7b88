/* SPDX-License-Identifier: Apache-2.0 */
/* State that the parts of a search share. search_run.c keeps what is known, search_model.c
 * predicts, and search_propose.c holds the strategies. */
#ifndef CA_SEARCH_STATE_H
#define CA_SEARCH_STATE_H

#include "search/model.h"
#include "search/search.h"

struct ca_search {
    const struct ca_space *space;
    struct ca_search_options options;
    struct ca_random random;
    double *times;     /* per configuration: NaN unknown, INFINITY failed */
    size_t *evaluated; /* evaluated configurations in the order of their reports */
    size_t num_evaluated;
    size_t *unseen;     /* the other configurations, in no order */
    size_t *place;      /* by configuration: its index in unseen while it is there */
    size_t *neighbours; /* buffer for the neighbours of one configuration */
    double *hopes;      /* buffer for their optimistic times: the mean less some deviations */
    size_t best;
    size_t num_first;       /* taken from options.first */
    struct ca_model *model; /* NULL until asked for */
    double *values;         /* buffer for the values of the model's observations */
    size_t pending;         /* the configuration that was suggested, but not reported yet */
    size_t *beliefs;        /* configurations with an assumed time, without a report */
    size_t num_beliefs;
    size_t num_turns; /* suggestions of the guided strategy since it jumps */
    bool jumps;       /* false until the descent from the seeds has ended */
};

static inline bool ca_is_known(const struct ca_search *search, size_t config)
{
    return search->times[config] == search->times[config];
}

/* The configuration that the strategy wants to know next; there is one that is not evaluated yet. */
size_t ca_search_propose(struct ca_search *search);

/* A model of the logarithm of the time, fitted to all reports. Failures count as the slowest
 * success, and all that are slower than most count the same: how bad the bad ones are says nothing
 * about the good ones. NULL without memory or before the first success. */
struct ca_model *ca_search_model(struct ca_search *search);

/* ca_search_neighbours() with a model at hand. */
size_t ca_search_promising(struct ca_search *search, struct ca_model *model, size_t *configs,
                           size_t max);

/* Logarithm of how far below `best` a value so distributed is to be expected, in its own unit. */
double ca_log_expected_gain(struct ca_prediction prediction, double best);

#endif
