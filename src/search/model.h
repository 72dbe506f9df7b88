/* SPDX-License-Identifier: Apache-2.0 */
/* A Gaussian process over the configurations of a space: from some measured ones it predicts the
 * others, with an uncertainty.
 *
 * The covariance of two configurations is the product over the parameters of (1 + STRENGTH * k) /
 * (1 + STRENGTH). k is a Matern function, which falls from 1 with the distance of their values (by
 * rank and logarithm, each scaled to its range; all texts are equally far apart). Expanded, this is
 * a sum over all sets of parameters, so the effect of one parameter is learnt from configurations
 * that differ in the others.
 *
 * Predictions of a pool of configurations are kept up to date at each observation, which costs
 * (observations * pool) operations; others are predicted on demand. */
#ifndef CA_MODEL_H
#define CA_MODEL_H

#include "search/random.h"
#include "search/space.h"

/* With more configurations than the first, a random sample is used; with more observations than the
 * second, they are refused. Together this is 80 MB. */
enum { CA_MODEL_POOL = 20000, CA_MODEL_OBSERVATIONS = 1024 };

struct ca_model;

struct ca_prediction {
    double mean, deviation;
};

/* NULL without memory. The space outlives the model; random is used only here. */
struct ca_model *ca_model_create(const struct ca_space *space, struct ca_random *random);
void ca_model_destroy(struct ca_model *model);

/* Adds a configuration that was not observed before. False without memory or room. */
bool ca_model_observe(struct ca_model *model, size_t config);
size_t ca_model_num_observed(const struct ca_model *model);

/* Takes the values of all observations, in their order; at least one. */
void ca_model_fit(struct ca_model *model, const double *values);

/* Predicts by the last fit; no observation may have been added since. */
struct ca_prediction ca_model_predict(struct ca_model *model, size_t config);

/* The ratio (root mean square, at the last fit) of actual errors to predicted deviations, if every
 * observation is predicted from those before it. */
double ca_model_surprise(const struct ca_model *model);

/* The pool, ascending, and the predictions of all of it. */
const size_t *ca_model_pool(const struct ca_model *model, size_t *count);
const struct ca_prediction *ca_model_predict_pool(struct ca_model *model);

#endif
