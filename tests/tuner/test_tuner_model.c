/* SPDX-License-Identifier: Apache-2.0 */
#include "search/model.h"
#include "tests/tuner/test_tuner_fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static struct ca_model *observe(const struct ca_space *space, size_t step)
{
    struct ca_random random = {1};
    struct ca_model *model = ca_model_create(space, &random);
    double values[200];
    size_t count = 0;

    cr_assert(model);
    for (size_t config = 0; config < space->count; config += step) {
        const double time = made_up_time(space, config);
        cr_assert(ca_model_observe(model, config));
        values[count++] = time < INFINITY ? time : 3.0;
    }
    cr_assert(ca_model_num_observed(model) == count);
    ca_model_fit(model, values);
    return model;
}

Test(tuner_model, comes_close_to_what_it_saw_and_is_less_sure_of_the_rest) {
    struct ca_space *space = made_up_space();
    struct ca_model *model = observe(space, 3);
    double seen = 0.0, unseen = 0.0, error = 0.0;

    for (size_t config = 0; config < space->count; config++) {
        const struct ca_prediction p = ca_model_predict(model, config);
        const double time = made_up_time(space, config);
        if (config % 3 == 0)
            error += fabs(p.mean - fmin(time, 3.0)) / 36;
        *(config % 3 == 0 ? &seen : &unseen) += p.deviation / (config % 3 == 0 ? 36 : 72);
    }
    cr_assert(error <= 0.15, "%g", error);
    cr_assert(unseen >= 2.0 * seen, "%g and %g", seen, unseen);
    ca_model_destroy(model);
    ca_space_destroy(space);
}

Test(tuner_model, predicts_unseen_configurations_better_than_their_mean_does) {
    struct ca_space *space = made_up_space();
    struct ca_model *model = observe(space, 3);
    double mean = 0.0, error = 0.0, spread = 0.0;

    for (size_t n = 0; n < 100; n++)
        mean += made_up_time(space, n) / 100.0;
    for (size_t n = 0; n < 100; n++) {
        if (n % 3 == 0)
            continue;
        error += pow(ca_model_predict(model, n).mean - made_up_time(space, n), 2);
        spread += pow(mean - made_up_time(space, n), 2);
    }
    cr_assert(error <= 0.4 * spread, "%g of %g is not explained", error, spread);
    ca_model_destroy(model);
    ca_space_destroy(space);
}

Test(tuner_model, pool_and_single_predictions_agree) {
    struct ca_space *space = made_up_space();
    struct ca_model *model = observe(space, 4);
    const struct ca_prediction *all = ca_model_predict_pool(model);
    size_t count;
    const size_t *pool = ca_model_pool(model, &count);

    cr_assert(count == space->count);
    for (size_t n = 0; n < count; n++) {
        const struct ca_prediction one = ca_model_predict(model, pool[n]);
        cr_assert(pool[n] == n);
        cr_assert(fabs(one.mean - all[n].mean) <= 1e-4);
        cr_assert(fabs(one.deviation - all[n].deviation) <= 1e-3);
    }
    ca_model_destroy(model);
    ca_space_destroy(space);
}

Test(tuner_model, large_spaces_are_sampled_evenly) {
    struct ca_space *space = ca_space_create();
    struct ca_random random = {7};
    size_t count, low = 0;

    for (int p = 0; p < 5; p++) {
        cr_assert(ca_space_add_parameter(space, p == 0 ? "a" : "b"));
        for (int v = 0; v < 10; v++)
            cr_assert(ca_space_add_number(space, v));
    }
    allow_all(space, NULL);
    struct ca_model *model = ca_model_create(space, &random);
    const size_t *pool = ca_model_pool(model, &count);
    cr_assert(count == CA_MODEL_POOL);
    for (size_t n = 0; n < count; n++) {
        cr_assert(n == 0 || pool[n] > pool[n - 1]);
        low += pool[n] < space->count / 2;
    }
    cr_assert(low > CA_MODEL_POOL * 48 / 100 && low < CA_MODEL_POOL * 52 / 100, "%zu", low);
    ca_model_destroy(model);
    ca_space_destroy(space);
}
