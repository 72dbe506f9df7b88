/* Simulated annealing: a random neighbour is taken if it is faster, else with a probability that
 * falls with the logarithm of the slow-down and with the budget used up. */
#include "search/strategies/strategy.h"

#include <math.h>
#include <stdlib.h>

/* In units of log time: at first a factor of 1.6 is taken with probability 1/e, at last of 1.01. */
static const double HOT = 0.5, COLD = 0.01;

struct annealing {
    size_t here; /* CA_NO_CONFIG before the first */
};

static void *create(struct ca_search *search)
{
    struct annealing *annealing = malloc(sizeof *annealing);

    (void)search;
    if (annealing)
        annealing->here = CA_NO_CONFIG;
    return annealing;
}

static void destroy(void *state)
{
    free(state);
}

static size_t propose(struct ca_search *search, void *state)
{
    struct annealing *annealing = state;

    if (annealing->here == CA_NO_CONFIG)
        annealing->here = search->best;
    if (annealing->here == CA_NO_CONFIG)
        return ca_search_any_unseen(search);
    return ca_search_any_neighbour(search, annealing->here);
}

static void learn(struct ca_search *search, void *state, size_t config, double time)
{
    struct annealing *annealing = state;

    if (time == INFINITY)
        return;
    const double heat = HOT * pow(COLD / HOT, ca_search_progress(search));
    const double here = annealing->here == CA_NO_CONFIG ? INFINITY : search->times[annealing->here];
    if (time <= here || ca_random_unit(&search->random) < exp(log(here / time) / heat))
        annealing->here = config;
}

const struct ca_strategy_calls ca_strategy_annealing = {"annealing", create, destroy,
                                                        propose,     learn,  true};
