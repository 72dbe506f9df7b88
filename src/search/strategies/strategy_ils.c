/* Iterated local search: descend by the first improving neighbour in random order; at a local
 * optimum go three random steps from the best so far. */
#include "search/strategies/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KICK = 3 };

struct ils {
    size_t here;   /* CA_NO_CONFIG before the first */
    double time;   /* of here */
    size_t *queue; /* its neighbours, shuffled */
    size_t num_queued;
    bool kicked; /* the next one learned becomes here, better or not */
};

static void destroy(void *state)
{
    struct ils *ils = state;

    free(ils->queue);
    free(ils);
}

static void *create(struct ca_search *search)
{
    struct ils *ils = calloc(1, sizeof *ils);

    if (!ils)
        return NULL;
    ils->here = CA_NO_CONFIG;
    ils->queue = malloc((ca_space_max_neighbours(search->space) + 1) * sizeof *ils->queue);
    if (!ils->queue) {
        destroy(ils);
        return NULL;
    }
    return ils;
}

static void move(struct ca_search *search, struct ils *ils, size_t config)
{
    ils->here = config;
    ils->time = search->times[config];
    ils->num_queued = ca_space_neighbours(search->space, config, ils->queue);
    ca_random_shuffle(&search->random, ils->queue, ils->num_queued);
}

static size_t propose(struct ca_search *search, void *state)
{
    struct ils *ils = state;

    if (ils->here == CA_NO_CONFIG && search->best != CA_NO_CONFIG)
        move(search, ils, search->best);
    if (ils->here == CA_NO_CONFIG) {
        ils->kicked = true;
        return ca_search_any_unseen(search);
    }
    if (ils->num_queued > 0)
        return ils->queue[--ils->num_queued];
    size_t config = search->best != CA_NO_CONFIG ? search->best : ils->here;
    for (int n = 0; n < KICK; n++)
        config = ca_search_any_neighbour(search, config);
    ils->kicked = true;
    return config;
}

static void learn(struct ca_search *search, void *state, size_t config, double time)
{
    struct ils *ils = state;

    if (ils->kicked || time < ils->time)
        move(search, ils, config);
    ils->kicked = false;
}

const struct ca_strategy_calls ca_strategy_ils = {"ils", create, destroy, propose, learn, true};
