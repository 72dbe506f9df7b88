/* SPDX-License-Identifier: Apache-2.0 */
#include "search/model.h"
#include "search/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* These were tuned on recorded searches of GPU kernels; similar values do as well. */
static const double STRENGTH = 3.0, REACH = 2.0, NOISE = 0.01;

struct ca_model {
    const struct ca_space *space;
    double *position[CA_MAX_PARAMETERS]; /* by parameter and value: its place on the axis, 0 to 1 */
    /* by parameter and value: covariance with the value of the configuration in focus() */
    double *like[CA_MAX_PARAMETERS];
    size_t *pool;
    size_t num_pool;
    struct ca_prediction *predictions; /* one for each configuration of the pool */
    float *explained; /* by configuration of the pool: variance that the observations explain */
    float *row;       /* the next row */
    size_t *observed;
    size_t num_observed;
    float *rows[CA_MODEL_OBSERVATIONS];     /* inverse factor times covariance with the pool */
    double *factors[CA_MODEL_OBSERVATIONS]; /* lower Cholesky factor of their covariance */
    double *weights;                        /* inverse factor times standardized values */
    double *solved;                         /* scratch: one configuration's column of rows */
    double mean, scale;                     /* mean and deviation of the observed values */
};

/* A value's position is the mean of its rank and of its logarithm, each from 0 to 1. Ranks count because a tunable lists the
 * values that are worth a trial. */
static bool place_values(const struct ca_parameter *parameter, double *position)
{
    const size_t count = parameter->num_values;
    double *sorted = malloc((count + 1) * sizeof *sorted);

    if (!sorted)
        return false;
    for (size_t v = 0; v < count; v++)
        sorted[v] = parameter->values[v].number;
    qsort(sorted, count, sizeof *sorted, ca_ascending);
    for (size_t v = 0; v < count && count > 1; v++) {
        const double number = parameter->values[v].number;
        const double *found = bsearch(&number, sorted, count, sizeof *sorted, ca_ascending);
        position[v] = (double)(found - sorted) / (double)(count - 1);
        if (sorted[0] > 0.0 && sorted[count - 1] > sorted[0])
            position[v] = 0.5 * position[v] +
                          0.5 * log(number / sorted[0]) / log(sorted[count - 1] / sorted[0]);
    }
    free(sorted);
    return true;
}

/* All configurations, or a random sample of them. */
static bool choose_pool(struct ca_model *model, struct ca_random *random)
{
    const size_t count = model->space->count;
    size_t wanted = count < CA_MODEL_POOL ? count : CA_MODEL_POOL;

    model->pool = malloc((wanted + 1) * sizeof *model->pool);
    if (!model->pool)
        return false;
    for (size_t config = 0; config < count && wanted > 0; config++) {
        if (wanted < count - config && ca_random_below(random, count - config) >= wanted)
            continue;
        model->pool[model->num_pool++] = config;
        wanted--;
    }
    return true;
}

struct ca_model *ca_model_create(const struct ca_space *space, struct ca_random *random)
{
    struct ca_model *model = calloc(1, sizeof *model);

    if (!model)
        return NULL;
    model->space = space;
    if (!choose_pool(model, random))
        goto failed;
    for (size_t p = 0; p < space->num_parameters; p++) {
        const size_t count = space->parameters[p].num_values + 1;
        model->position[p] = calloc(count, sizeof(double));
        model->like[p] = malloc(count * sizeof(double));
        if (!model->position[p] || !model->like[p] ||
            !place_values(&space->parameters[p], model->position[p]))
            goto failed;
    }
    model->predictions = malloc((model->num_pool + 1) * sizeof *model->predictions);
    model->explained = calloc(model->num_pool + 1, sizeof *model->explained);
    model->observed = malloc(CA_MODEL_OBSERVATIONS * sizeof *model->observed);
    model->weights = malloc(CA_MODEL_OBSERVATIONS * sizeof *model->weights);
    model->solved = malloc(CA_MODEL_OBSERVATIONS * sizeof *model->solved);
    if (model->predictions && model->explained && model->observed && model->weights &&
        model->solved)
        return model;
failed:
    ca_model_destroy(model);
    return NULL;
}

void ca_model_destroy(struct ca_model *model)
{
    if (!model)
        return;
    for (size_t n = 0; n < model->num_observed; n++) {
        free(model->rows[n]);
        free(model->factors[n]);
    }
    for (size_t p = 0; p < model->space->num_parameters; p++) {
        free(model->position[p]);
        free(model->like[p]);
    }
    free(model->solved);
    free(model->weights);
    free(model->observed);
    free(model->explained);
    free(model->predictions);
    free(model->pool);
    free(model);
}

static double value_likeness(const struct ca_model *model, size_t p, size_t a, size_t b)
{
    const struct ca_value *values = model->space->parameters[p].values;
    double distance = fabs(model->position[p][a] - model->position[p][b]);

    if (values[a].text && a != b)
        distance = 1.0;
    const double steps = sqrt(3.0) * distance / REACH; /* Matern's function with nu = 3/2 */
    return (1.0 + STRENGTH * (1.0 + steps) * exp(-steps)) / (1.0 + STRENGTH);
}

/* Makes likeness() return covariances with this configuration. */
static void focus(struct ca_model *model, size_t config)
{
    const uint16_t *choices = ca_space_choices(model->space, config);

    for (size_t p = 0; p < model->space->num_parameters; p++)
        for (size_t v = 0; v < model->space->parameters[p].num_values; v++)
            model->like[p][v] = value_likeness(model, p, choices[p], v);
}

static double likeness(const struct ca_model *model, size_t config)
{
    const uint16_t *choices = ca_space_choices(model->space, config);
    double product = 1.0;

    for (size_t p = 0; p < model->space->num_parameters; p++)
        product *= model->like[p][choices[p]];
    return product;
}

/* Fills solved with the inverse factor times the covariances of the observations with the configuration in focus(). Returns
 * the sum of its squares. */
static double solve(const struct ca_model *model)
{
    double squares = 0.0;

    for (size_t n = 0; n < model->num_observed; n++) {
        double rest = likeness(model, model->observed[n]);
        for (size_t m = 0; m < n; m++)
            rest -= model->factors[n][m] * model->solved[m];
        model->solved[n] = rest / model->factors[n][n];
        squares += model->solved[n] * model->solved[n];
    }
    return squares;
}

bool ca_model_observe(struct ca_model *model, size_t config)
{
    const size_t n = model->num_observed;

    if (n == CA_MODEL_OBSERVATIONS)
        return false;
    float *row = malloc((model->num_pool + 1) * sizeof *row);
    double *factor = malloc((n + 1) * sizeof *factor);
    if (!row || !factor) {
        free(row);
        free(factor);
        return false;
    }
    focus(model, config);
    const double left = 1.0 + NOISE - solve(model);
    memcpy(factor, model->solved, n * sizeof *factor);
    factor[n] = sqrt(fmax(left, 1e-6));
    for (size_t k = 0; k < model->num_pool; k++)
        row[k] = (float)likeness(model, model->pool[k]);
    for (size_t m = 0; m < n; m++) {
        const float part = (float)factor[m], *earlier = model->rows[m];
        for (size_t k = 0; k < model->num_pool; k++)
            row[k] -= part * earlier[k];
    }
    for (size_t k = 0; k < model->num_pool; k++) {
        row[k] /= (float)factor[n];
        model->explained[k] += row[k] * row[k];
    }
    model->rows[n] = row;
    model->factors[n] = factor;
    model->observed[n] = config;
    model->num_observed++;
    return true;
}

size_t ca_model_num_observed(const struct ca_model *model)
{
    return model->num_observed;
}

void ca_model_fit(struct ca_model *model, const double *values)
{
    const double count = (double)model->num_observed;
    double sum = 0.0, squares = 0.0;

    for (size_t n = 0; n < model->num_observed; n++)
        sum += values[n];
    model->mean = sum / count;
    for (size_t n = 0; n < model->num_observed; n++)
        squares += (values[n] - model->mean) * (values[n] - model->mean);
    model->scale = sqrt(squares / count) + 1e-9;
    for (size_t n = 0; n < model->num_observed; n++) {
        double rest = (values[n] - model->mean) / model->scale;
        for (size_t m = 0; m < n; m++)
            rest -= model->factors[n][m] * model->weights[m];
        model->weights[n] = rest / model->factors[n][n];
    }
}

static struct ca_prediction prediction(const struct ca_model *model, double score, double explained)
{
    return (struct ca_prediction){
        .mean = model->mean + model->scale * score,
        .deviation = model->scale * sqrt(fmax(1.0 - explained, 1e-6)),
    };
}

struct ca_prediction ca_model_predict(struct ca_model *model, size_t config)
{
    double score = 0.0;

    focus(model, config);
    const double explained = solve(model);
    for (size_t n = 0; n < model->num_observed; n++)
        score += model->weights[n] * model->solved[n];
    return prediction(model, score, explained);
}

double ca_model_surprise(const struct ca_model *model)
{
    double squares = 0.0;

    for (size_t n = 0; n < model->num_observed;
         n++) /* each weight is the error of predicting an observation from those before it */
        squares += model->weights[n] * model->weights[n];
    return sqrt(squares / (double)model->num_observed);
}

const size_t *ca_model_pool(const struct ca_model *model, size_t *count)
{
    *count = model->num_pool;
    return model->pool;
}

const struct ca_prediction *ca_model_predict_pool(struct ca_model *model)
{
    enum { BLOCK = 512 }; /* stays in the first-level cache */
    float score[BLOCK];

    for (size_t first = 0; first < model->num_pool; first += BLOCK) {
        const size_t left = model->num_pool - first, count = left < BLOCK ? left : BLOCK;
        for (size_t k = 0; k < count; k++)
            score[k] = 0.0f;
        for (size_t n = 0; n < model->num_observed; n++) {
            const float weight = (float)model->weights[n], *row = model->rows[n] + first;
            for (size_t k = 0; k < count; k++)
                score[k] += weight * row[k];
        }
        for (size_t k = 0; k < count; k++)
            model->predictions[first + k] =
                prediction(model, (double)score[k], (double)model->explained[first + k]);
    }
    return model->predictions;
}
