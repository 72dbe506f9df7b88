/* SPDX-License-Identifier: Apache-2.0 */
#include "search/search_state.h"
#include "search/statistics.h"

#include <math.h>
#include <stdlib.h>

/* The model sees the times of the fastest 75 % of the configurations that worked; slower ones count as the slowest of
 * these. The share was tuned on recorded searches. */
static const double KEEP = 0.75;

/* Neighbours are ordered by the predicted mean minus this many standard deviations. */
static const double OPTIMISM = 1.0;

/* The logarithm of the slowest time that the model sees. */
static double ceiling(const struct ca_search *search, size_t count, double *sorted)
{
    size_t successes = 0;

    for (size_t n = 0; n < count; n++) {
        const double time = search->times[search->evaluated[n]];
        if (time < INFINITY)
            sorted[successes++] = log(time);
    }
    qsort(sorted, successes, sizeof *sorted, ca_ascending);
    if (successes > 4)
        return sorted[(size_t)(KEEP * (double)successes)];
    return successes ? sorted[successes - 1] : log(search->times[search->best]);
}

struct ca_model *ca_search_model(struct ca_search *search)
{
    size_t count;

    if (search->best == CA_NO_CONFIG)
        return NULL;
    if (!search->values)
        search->values = malloc(CA_MODEL_OBSERVATIONS * sizeof *search->values);
    if (!search->model)
        search->model = ca_model_create(search->space, &search->random);
    if (!search->model || !search->values)
        return NULL;
    count = ca_model_num_observed(search->model);
    while (count < search->num_evaluated &&
           ca_model_observe(search->model, search->evaluated[count]))
        count++;
    if (count == 0)
        return NULL;
    const double most = ceiling(search, count, search->values);
    for (size_t n = 0; n < count; n++)
        search->values[n] = fmin(log(search->times[search->evaluated[n]]), most);
    ca_model_fit(search->model, search->values);
    return search->model;
}

size_t ca_search_promising(struct ca_search *search, struct ca_model *model, size_t *configs,
                           size_t max)
{
    const size_t count = ca_space_neighbours(search->space, search->best, search->neighbours);
    size_t num_unseen = 0;

    for (size_t n = 0; n < count; n++) {
        const size_t config = search->neighbours[n];
        if (ca_is_known(search, config))
            continue;
        const struct ca_prediction prediction = ca_model_predict(model, config);
        const double hope = prediction.mean - OPTIMISM * prediction.deviation;
        size_t place = num_unseen < max ? num_unseen : max;
        for (; place > 0 && hope < search->hopes[place - 1]; place--) {
            if (place == max)
                continue; /* the last one drops out */
            search->hopes[place] = search->hopes[place - 1];
            configs[place] = configs[place - 1];
        }
        if (place < max) {
            search->hopes[place] = hope;
            configs[place] = config;
        }
        num_unseen++;
    }
    return num_unseen;
}

size_t ca_search_neighbours(struct ca_search *search, size_t *configs, size_t max)
{
    struct ca_model *model = ca_search_model(search);

    return model ? ca_search_promising(search, model, configs, max) : 0;
}

double ca_log_expected_gain(struct ca_prediction prediction, double best)
{
    const double root_2_pi = 2.50662827463100050242, root_half = 0.70710678118654752440;
    const double z = (best - prediction.mean) / prediction.deviation;
    const double density = exp(-0.5 * z * z) / root_2_pi;

    if (z > -5.0)
        return log(prediction.deviation * (density + 0.5 * z * erfc(-z * root_half)));
    return log(prediction.deviation / (z * z * root_2_pi)) - 0.5 * z * z; /* nothing underflows */
}

/* The probability that a normally distributed value, as predicted, is below this one. */
static double below(struct ca_prediction prediction, double value)
{
    return 0.5 * erfc((prediction.mean - value) / prediction.deviation * 0.70710678118654752440);
}

bool ca_search_confidence(struct ca_search *search, struct ca_confidence *confidence)
{
    struct ca_model *model = ca_search_model(search);
    double most = -INFINITY, log_none_2 = 0.0, log_none_5 = 0.0;
    size_t count;

    *confidence = (struct ca_confidence){.expected_gain = 0.0, .within_2 = 1.0, .within_5 = 1.0};
    if (!model)
        return false;
    const double best = log(search->times[search->best]);
    const struct ca_prediction *predictions = ca_model_predict_pool(model);
    const size_t *pool = ca_model_pool(model, &count);
    const double surprise = fmax(ca_model_surprise(model), 1.0);
    for (size_t n = 0; n < count; n++) {
        struct ca_prediction p = predictions[n];
        if (ca_is_known(search, pool[n]))
            continue;
        p.deviation *= surprise;
        most = fmax(most, ca_log_expected_gain(p, best));
        log_none_2 += log1p(-below(p, best - log(1.02)));
        log_none_5 += log1p(-below(p, best - log(1.05)));
    }
    confidence->expected_gain = -expm1(-exp(most));
    confidence->within_2 = exp(log_none_2);
    confidence->within_5 = exp(log_none_5);
    return true;
}
