/* SPDX-License-Identifier: Apache-2.0 */
/* The default. From seeds it descends to a local optimum, the most promising neighbour of the
 * incumbent first; without seeds it begins with a few random configurations. Then, in turn, such a
 * neighbour, and the configuration of the whole space with the largest expected improvement. At
 * the end of the budget only neighbours: what is left of the incumbent's neighbourhood is looked
 * at completely. */
#include "search/strategies/strategy.h"

#include <math.h>

enum { START = 4 };

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

static size_t propose(struct ca_search *search)
{
    size_t neighbour = CA_NO_CONFIG;

    if (search->num_evaluated < START && search->options.num_first == 0)
        return CA_NO_CONFIG;
    struct ca_model *model = ca_search_model(search);
    if (!model)
        return CA_NO_CONFIG;
    const size_t num_unseen = ca_search_promising(search, model, &neighbour, 1);
    const bool last_chance = ca_search_remaining(search) <= num_unseen;
    search->jumps |= neighbour == CA_NO_CONFIG || search->options.num_first == 0;
    if (!search->jumps || last_chance || search->num_turns++ % 2 == 1)
        return neighbour != CA_NO_CONFIG ? neighbour : best_jump(search, model);
    return best_jump(search, model);
}

const struct ca_strategy_calls ca_strategy_guided = {"guided", propose};
