/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/onednn/addends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the addend of a row depends on, besides the query. */
struct dependence {
    bool head, batch;
};

static struct dependence dependence_of(const struct problem_data *data)
{
    return (struct dependence){.head = data->slopes != NULL || data->addend_stride[1] > 0,
                               .batch = data->q_lengths != NULL || data->kv_lengths != NULL ||
                                        data->addend_stride[0] > 0};
}

/* Keys [key, key + keys) of one query; whether it sees any, and whether all values are 0. */
struct seen {
    bool any, zeros;
};

static struct seen fill_row(const struct problem_data *data, struct row_place at, size_t key,
                            size_t keys, float *values)
{
    const float *given = problem_data_addend(data, at.batch, at.head, at.i);
    const float slope = data->slopes != NULL ? data->slopes[at.head] : 0.0f;
    const double now = (double)at.i + (double)problem_data_diagonal(data, at.batch);
    struct seen seen = {.any = false, .zeros = true};
    size_t first, end;

    problem_data_visible(data, at.batch, at.i, &first, &end);
    for (size_t n = 0; n < keys; n++) {
        const size_t j = key + n;
        float x = given != NULL ? given[j] : 0.0f;
        if (slope != 0.0f)
            x += slope * (float)((double)j - now);
        values[n] = j >= first && j < end ? x : -INFINITY;
        seen.any = seen.any || values[n] != -INFINITY;
        seen.zeros = seen.zeros && values[n] == 0.0f;
    }
    return seen;
}

/* An earlier step whose addend this one's is as well, or NULL. */
static const struct addend *find_equal(const struct addends *addends, const struct steps *steps,
                                       const struct problem_data *data,
                                       struct dependence dependence, size_t step)
{
    const clattn_problem *p = &data->problem;
    const struct step *b = &steps->step[step];

    for (size_t n = 0; n < step && !dependence.head; n++) {
        const struct step *a = &steps->step[n];
        const bool same_batch = a->slice / p->kv_heads == b->slice / p->kv_heads;
        if (a->row % p->seq_q == b->row % p->seq_q && a->rows == b->rows && a->key == b->key &&
            a->keys == b->keys && addends->addend[n].entries == 1 &&
            (same_batch || !dependence.batch))
            return &addends->addend[n];
    }
    return NULL;
}

static bool make_one(struct addends *addends, const struct problem_data *data,
                     const struct steps *steps, size_t n, size_t spare, struct message *why)
{
    const clattn_problem *p = &data->problem;
    const struct step *step = &steps->step[n];
    const struct dependence dependence = dependence_of(data);
    struct addend *addend = &addends->addend[n];
    const size_t last_slice = step->slice + (step->same_slice ? 0 : step->entries - 1);
    const bool one_batch = step->slice / p->kv_heads == last_slice / p->kv_heads;
    const struct addend *equal = find_equal(addends, steps, data, dependence, n);
    bool zeros = true;

    addend->entries = dependence.head || (dependence.batch && !one_batch) ? step->entries : 1;
    if (equal != NULL && addend->entries == 1) {
        *addend = *equal;
        addend->shared = true;
        return true;
    }
    const size_t stride = step->keys + spare, count = addend->entries * step->rows * stride;
    addend->values = count < SIZE_MAX / sizeof(float) ? calloc(count, sizeof(float)) : NULL;
    if (addend->values == NULL)
        return message_set(why, "no memory for %zu elements of masks", count);
    for (size_t e = 0; e < addend->entries; e++) {
        for (size_t r = 0; r < step->rows; r++) {
            float *values = addend->values + (e * step->rows + r) * stride;
            const struct row_place at = step_row(step, p, e, r);
            zeros = fill_row(data, at, step->key, step->keys, values).zeros && zeros;
        }
    }
    if (zeros) {
        free(addend->values);
        addend->values = NULL;
    }
    return true;
}

static bool find_blind(struct addends *addends, const struct problem_data *data,
                       struct message *why)
{
    const clattn_problem *p = &data->problem;
    const size_t rows = p->batch * p->heads * p->seq_q;
    float *values = malloc(p->seq_kv * sizeof *values);

    addends->blind = malloc(rows * sizeof *addends->blind);
    if (values == NULL || addends->blind == NULL) {
        free(values);
        return message_set(why, "no memory for %zu rows", rows);
    }
    for (size_t n = 0; n < rows; n++) {
        const struct row_place at = {
            .batch = n / p->seq_q / p->heads, .head = n / p->seq_q % p->heads, .i = n % p->seq_q};
        if (!fill_row(data, at, 0, p->seq_kv, values).any)
            addends->blind[addends->num_blind++] = n;
    }
    free(values);
    return true;
}

bool addends_needed(const struct problem_data *data)
{
    return data->addend != NULL || data->slopes != NULL || problem_data_limited(data);
}

bool addends_make(struct addends *addends, const struct problem_data *data,
                  const struct steps *steps, size_t spare, struct message *why)
{
    const bool needed = addends_needed(data);
    bool ok = true;

    memset(addends, 0, sizeof *addends);
    addends->addend = calloc(steps->count, sizeof *addends->addend);
    if (addends->addend == NULL)
        return message_set(why, "no memory for %zu masks", steps->count);
    for (size_t n = 0; ok && needed && n < steps->count; n++) {
        ok = make_one(addends, data, steps, n, spare, why);
        addends->count = n + 1;
    }
    return ok && (!needed || find_blind(addends, data, why));
}

void addends_free(struct addends *addends)
{
    for (size_t n = 0; n < addends->count; n++)
        if (!addends->addend[n].shared)
            free(addends->addend[n].values);
    free(addends->addend);
    free(addends->blind);
    memset(addends, 0, sizeof *addends);
}
