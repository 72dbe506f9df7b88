/* random and exhaustive: no memory but the search's own. */
#include "search/strategies/strategy.h"

static void *create(struct ca_search *search)
{
    return search; /* not NULL is all that is asked */
}

static void destroy(void *state)
{
    (void)state;
}

static size_t propose_random(struct ca_search *search, void *state)
{
    (void)state;
    return ca_search_any_unseen(search);
}

static size_t propose_next(struct ca_search *search, void *state)
{
    size_t config = 0;

    (void)state;
    if (search->num_evaluated > 0) /* the first gap is at or after the last report, or wraps */
        config = search->evaluated[search->num_evaluated - 1];
    while (ca_is_known(search, config))
        config = (config + 1) % search->space->count;
    return config;
}

static void learn(struct ca_search *search, void *state, size_t config, double time)
{
    (void)search;
    (void)state;
    (void)config;
    (void)time;
}

const struct ca_strategy_calls ca_strategy_random = {"random",       create, destroy,
                                                     propose_random, learn,  false};
const struct ca_strategy_calls ca_strategy_exhaustive = {"exhaustive", create, destroy,
                                                         propose_next, learn,  false};
