/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies see of a search, and what a search asks of a strategy. */
#ifndef CA_STRATEGY_H
#define CA_STRATEGY_H

#include "search/model.h"
#include "search/search.h"

struct ca_strategy_calls {
    const char *name;
    /* The configuration that it wants to know next, which is not evaluated; CA_NO_CONFIG for any such. */
    size_t (*propose)(struct ca_search *search);
};

extern const struct ca_strategy_calls ca_strategy_guided, ca_strategy_random,
    ca_strategy_exhaustive;

struct ca_search {
    const struct ca_space *space;
    struct ca_search_options options;
    const struct ca_strategy_calls *calls;
    struct ca_random random;
    double *times;     /* per configuration: NaN unknown, INFINITY failed */
    size_t *evaluated; /* in the order of their reports */
    size_t num_evaluated;
    size_t *unseen;     /* the others, in no order */
    size_t *place;      /* of each of the others in unseen */
    size_t *neighbours; /* room for those of one configuration */
    double *hopes;      /* ... and how fast they may be */
    size_t best;
    size_t num_first;       /* taken from options.first */
    struct ca_model *model; /* NULL until asked for */
    double *values;         /* of the model's observations */
    size_t pending;         /* suggested, not reported */
    size_t *beliefs;        /* evaluated, but not reported */
    size_t num_beliefs;
    size_t num_turns; /* of guided, since it jumps */
    bool jumps;       /* false until the descent from the seeds has ended */
};

static inline bool ca_is_known(const struct ca_search *search, size_t config)
{
    return search->times[config] == search->times[config];
}

/* One that is not evaluated yet; there must be one. */
size_t ca_search_any_unseen(struct ca_search *search);

/* How many evaluations the budget probably still allows. */
size_t ca_search_remaining(const struct ca_search *search);

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
