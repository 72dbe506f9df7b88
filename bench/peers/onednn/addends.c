/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/onednn/addends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An earlier step to whose scores the same is added, or the step itself. */
static size_t find_equal(const struct steps *steps, const struct problem_data *data, size_t step)
{
    const clattn_problem *p = &data->problem;
    const struct step *b = &steps->step[step];
    const bool by_head = data->slopes != NULL || data->addend_stride[1] > 0;
    const bool by_batch =
        data->q_lengths != NULL || data->kv_lengths != NULL || data->addend_stride[0] > 0;

    for (size_t n = 0; n < step && !by_head; n++) {
        const struct step *a = &steps->step[n];
        if (a->row % p->seq_q == b->row % p->seq_q && a->rows == b->rows && a->key == b->key &&
            a->keys == b->keys && (!by_batch || a->slice / p->kv_heads == b->slice / p->kv_heads))
            return n;
    }
    return step;
}

/* NULL where all are 0. */
static bool fill(float **values, const struct problem_data *data, const struct step *step,
                 size_t spare, struct message *why)
{
    const size_t stride = step->keys + spare;
    bool zeros = true;

    *values = step->rows < SIZE_MAX / sizeof(float) / stride
                  ? calloc(step->rows * stride, sizeof **values)
                  : NULL;
    if (*values == NULL)
        return message_set(why, "no memory for %zu rows of masks", step->rows);
    for (size_t r = 0; r < step->rows; r++) {
        float *row = *values + r * stride;
        problem_data_addends(data, step_row(step, &data->problem, 0, r), step->key, step->keys,
                             row);
        for (size_t j = 0; zeros && j < step->keys; j++)
            zeros = row[j] == 0.0f;
    }
    if (zeros) {
        free(*values);
        *values = NULL;
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
        if (!problem_data_addends(data, at, 0, p->seq_kv, values))
            addends->blind[addends->num_blind++] = n;
    }
    free(values);
    return true;
}

bool addends_make(struct addends *addends, const struct problem_data *data,
                  const struct steps *steps, size_t spare, struct message *why)
{
    bool ok = true;

    memset(addends, 0, sizeof *addends);
    if (!problem_data_ruled(data))
        return true;
    addends->values = calloc(steps->count, sizeof *addends->values);
    addends->same = calloc(steps->count, sizeof *addends->same);
    if (addends->values == NULL || addends->same == NULL)
        return message_set(why, "no memory for %zu masks", steps->count);
    for (; ok && addends->count < steps->count; addends->count++) {
        const size_t n = addends->count, equal = find_equal(steps, data, n);
        addends->same[n] = equal;
        ok = equal < n || fill(&addends->values[n], data, &steps->step[n], spare, why);
    }
    return ok && find_blind(addends, data, why);
}

float *addends_of(const struct addends *addends, size_t step)
{
    return addends->count > 0 ? addends->values[addends->same[step]] : NULL;
}

void addends_free(struct addends *addends)
{
    for (size_t n = 0; n < addends->count; n++)
        free(addends->values[n]);
    free(addends->values);
    free(addends->same);
    free(addends->blind);
    memset(addends, 0, sizeof *addends);
}
