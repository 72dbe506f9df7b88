/* SPDX-License-Identifier: Apache-2.0 */
/* random and exhaustive: no memory but the search's own. */
#include "search/strategies/strategy.h"

static size_t propose_next(struct ca_search *search)
{
    size_t config = 0;

    if (search->num_evaluated > 0) /* the first gap is at or after the last report, or wraps */
        config = search->evaluated[search->num_evaluated - 1];
    while (ca_is_known(search, config))
        config = (config + 1) % search->space->count;
    return config;
}

const struct ca_strategy_calls ca_strategy_random = {"random", ca_search_any_unseen};
const struct ca_strategy_calls ca_strategy_exhaustive = {"exhaustive", propose_next};
