/* Steady-state genetic algorithm: two tournaments choose the parents, a child takes each choice
 * from either and mutates, and replaces the worst of the population if it is faster. */
#include "search/strategies/strategy.h"

#include <math.h>
#include <stdlib.h>

enum { POPULATION = 20, CROSSINGS = 50 };
static const double MUTATION = 0.1; /* of each choice */

struct genetic {
    size_t members[POPULATION];
    size_t num_members;
};

static void *create(struct ca_search *search)
{
    (void)search;
    return calloc(1, sizeof(struct genetic));
}

static void destroy(void *state)
{
    free(state);
}

static void learn(struct ca_search *search, void *state, size_t config, double time)
{
    struct genetic *genetic = state;
    size_t worst = 0;

    for (size_t n = 0; n < genetic->num_members; n++) {
        if (genetic->members[n] == config)
            return;
        if (search->times[genetic->members[n]] > search->times[genetic->members[worst]])
            worst = n;
    }
    if (genetic->num_members < POPULATION)
        genetic->members[genetic->num_members++] = config;
    else if (time < search->times[genetic->members[worst]])
        genetic->members[worst] = config;
}

static size_t tournament(struct ca_search *search, const struct genetic *genetic)
{
    const size_t a = genetic->members[ca_random_below(&search->random, POPULATION)];
    const size_t b = genetic->members[ca_random_below(&search->random, POPULATION)];

    return search->times[a] < search->times[b] ? a : b;
}

/* CA_NO_CONFIG if the child is not allowed. */
static size_t cross(struct ca_search *search, size_t mother, size_t father)
{
    const struct ca_space *space = search->space;
    uint16_t child[CA_MAX_PARAMETERS];

    for (size_t p = 0; p < space->num_parameters; p++) {
        const size_t parent = ca_random_below(&search->random, 2) ? mother : father;
        child[p] = ca_space_choices(space, parent)[p];
        if (ca_random_unit(&search->random) < MUTATION)
            child[p] = (uint16_t)ca_random_below(&search->random, space->parameters[p].num_values);
    }
    return ca_space_find(space, child);
}

static size_t propose(struct ca_search *search, void *state)
{
    struct genetic *genetic = state;

    for (size_t n = 0; genetic->num_members == 0 && n < search->num_evaluated; n++)
        learn(search, genetic, search->evaluated[n], search->times[search->evaluated[n]]);
    if (genetic->num_members < POPULATION)
        return ca_search_any_unseen(search);
    const size_t mother = tournament(search, genetic), father = tournament(search, genetic);
    for (int n = 0; n < CROSSINGS; n++) {
        const size_t child = cross(search, mother, father);
        if (child != CA_NO_CONFIG)
            return child;
    }
    return ca_search_any_neighbour(search, mother);
}

const struct ca_strategy_calls ca_strategy_genetic = {"genetic", create, destroy,
                                                      propose,   learn,  true};
