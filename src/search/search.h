/* SPDX-License-Identifier: Apache-2.0 */
/* Searching a space for the fastest configuration, one evaluation at a time: the searcher suggests
 * a configuration, the caller measures it and reports. It knows neither kernels nor devices.
 *
 *     while (ca_search_suggest(search, &config))
 *         ca_search_report(search, config, measure(config));
 *
 * The same space, options and reports give the same suggestions. */
#ifndef CA_SEARCH_H
#define CA_SEARCH_H

#include "search/space.h"

enum ca_strategy {
    CA_GUIDED,     /* a Gaussian process orders the incumbent's neighbours and chooses jumps */
    CA_RANDOM,     /* configurations at random, none twice */
    CA_EXHAUSTIVE, /* every configuration, in the order of the space */
    CA_NUM_STRATEGIES
};

struct ca_search_options {
    enum ca_strategy strategy;
    uint64_t seed;
    const size_t *first; /* evaluated before all others; copied */
    size_t num_first;
};

struct ca_search;

/* "guided" and so on. */
const char *ca_strategy_name(enum ca_strategy strategy);

/* CA_NUM_STRATEGIES if there is none of this name. */
enum ca_strategy ca_strategy_find(const char *name);

/* NULL without memory. The space outlives the search. */
struct ca_search *ca_search_create(const struct ca_space *space,
                                   const struct ca_search_options *options);
void ca_search_destroy(struct ca_search *search);

/* False when every configuration is evaluated. Asking again before the report gives the same
 * configuration. */
bool ca_search_suggest(struct ca_search *search, size_t *config);

/* The time of a configuration in any unit; INFINITY (or NaN, or anything not above 0) if it failed.
 * It need not have been suggested: what is known from before is reported first and counts as
 * evaluated. A second report of a configuration is ignored. */
void ca_search_report(struct ca_search *search, size_t config, double time);

/* Assumes that a suggestion is as fast as the model predicts (but not the fastest) until its
 * report, so that more can be suggested and built at once. False if it is evaluated. */
bool ca_search_believe(struct ca_search *search, size_t config);

/* Drops assumptions that no report has replaced: these configurations are not evaluated. */
void ca_search_disbelieve(struct ca_search *search);

/* Lists the neighbours of the fastest configuration that are not evaluated. A model puts the most promising first; the first
 * `max` are stored. Returns how many there are; 0 without memory or before the first success. */
size_t ca_search_neighbours(struct ca_search *search, size_t *configs, size_t max);

/* The fastest so far; CA_NO_CONFIG while there is none. */
size_t ca_search_best(const struct ca_search *search);

/* The reported or assumed time; NaN if not evaluated, INFINITY if it failed. */
double ca_search_time(const struct ca_search *search, size_t config);

/* Estimates how much can still be gained, by a model of all reports so far. The estimate is
 * cautious: on recorded spaces it stated 3, 26, 39 and 80 % for being within 2 % after 25, 50, 100
 * and 200 evaluations where 25, 44, 69 and 96 % of the searches were. */
struct ca_confidence {
    /* expected improvement by the next evaluation, as a part of the best time; 0 to 1 */
    double expected_gain;
    double within_2; /* probability that no configuration is over 2 % faster */
    double within_5; /* that none is over 5 % faster */
};

/* False without memory or before the first success. Without a guided search it costs
 * a model of the space. */
bool ca_search_confidence(struct ca_search *search, struct ca_confidence *confidence);

#endif
