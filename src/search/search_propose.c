/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies. The default, guided, descends from seeds to a local optimum, the most promising
 * neighbour of the incumbent first; without seeds it begins with a few random configurations. Then, in
 * turn, such a neighbour, and the configuration of the whole space with the largest expected
 * improvement. */
#include "search/search_state.h"

#include <math.h>
#include <string.h>

enum { START = 4 };

static size_t propose_random(struct ca_search *search)
{
    const size_t count = search->space->count - search->num_evaluated;

    return search->unseen[ca_random_below(&search->random, count)];
}

static size_t propose_next(struct ca_search *search)
{
    size_t config = 0;

    if (search->num_evaluated > 0) /* the first gap is at or after the last report, or wraps */
        config = search->evaluated[search->num_evaluated - 1];
    while (ca_is_known(search, config))
        config = (config + 1) % search->space->count;
    return config;
}

static size_t best_jump(struct ca_search *search, struct ca_model *model)
{
    const double best = log(search->times[search->best]);
    const struct ca_prediction *predictions = ca_model_predict_pool(model);
    size_t count, chosen = CA_NO_CONFIG;
    const size_t *pool = ca_model_pool(model, &count);
    double most = -INFINITY;

    for (size_t n = 0; n < count; n++) {
        if (ca_is_known(search, pool[n]))
            continue;
        const double gain = ca_log_expected_gain(predictions[n], best);
        if (gain > most) {
            most = gain;
            chosen = pool[n];
        }
    }
    return chosen;
}

/* CA_NO_CONFIG for any. */
static size_t propose_guided(struct ca_search *search)
{
    size_t neighbour = CA_NO_CONFIG;

    if (search->num_evaluated < START && search->options.num_first == 0)
        return CA_NO_CONFIG;
    struct ca_model *model = ca_search_model(search);
    if (!model)
        return CA_NO_CONFIG;
    ca_search_promising(search, model, &neighbour, 1);
    search->jumps |= neighbour == CA_NO_CONFIG || search->options.num_first == 0;
    if (!search->jumps || search->num_turns++ % 2 == 1)
        return neighbour != CA_NO_CONFIG ? neighbour : best_jump(search, model);
    return best_jump(search, model);
}

static const struct {
    const char *name;
    size_t (*propose)(struct ca_search *search);
} strategies[CA_NUM_STRATEGIES] = {
    [CA_GUIDED] = {"guided", propose_guided},
    [CA_RANDOM] = {"random", propose_random},
    [CA_EXHAUSTIVE] = {"exhaustive", propose_next},
};

size_t ca_search_propose(struct ca_search *search)
{
    const size_t config = strategies[search->options.strategy].propose(search);

    return config == CA_NO_CONFIG ? propose_random(search) : config;
}

const char *ca_strategy_name(enum ca_strategy strategy)
{
    return strategies[strategy].name;
}

enum ca_strategy ca_strategy_find(const char *name)
{
    int n = 0;

    while (n < CA_NUM_STRATEGIES && strcmp(strategies[n].name, name) != 0)
        n++;
    return (enum ca_strategy)n;
}
