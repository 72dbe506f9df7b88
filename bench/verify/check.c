/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verify/check.h"
#include "bench/judge/judge.h"
#include "bench/verify/sample.h"

#include <math.h>
#include <stdlib.h>

struct comparing {
    clattn_operation operation;
    const struct results *results;
    struct tensor_shape shape[NUM_TENSORS];
    struct worst *worst;
    struct check_place *place; /* NULL: it does not matter. */
};

static void compare(void *user, int id, const size_t at[4], const struct bounded *want,
                    size_t count)
{
    const struct comparing *c = user;
    const struct tensor_shape *shape = &c->shape[id];
    const void *got = c->results->out[sample_output(c->operation, id)];
    const size_t first = tensor_index(shape, at[0], at[1], at[2], at[3]);

    for (size_t n = 0; got != NULL && n < count; n++) {
        const double value = tensor_load(shape, got, first + n * shape->stride[3]);
        const struct worst before = *c->worst;
        worst_add(c->worst, value, want[n].value, want[n].bound);
        if (c->place == NULL || (before.results > 0 && !(c->worst->ratio > before.ratio)))
            continue;
        *c->place = (struct check_place){.tensor = shape->name,
                                         .at = {at[0], at[1], at[2], at[3] + n},
                                         .got = value,
                                         .want = want[n].value};
    }
}

static bool compare_all(const struct attention_case *attention, const struct results *results,
                        enum precision precision, double budget, struct worst *worst,
                        struct check_place *place, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;
    const unsigned char *held[NUM_TENSORS] = {NULL};
    struct tensor_view view = sample_inputs(attention);
    struct comparing c = {
        .operation = p->operation, .results = results, .worst = worst, .place = place};
    bool ok = true;

    for (int id = 0; id < NUM_TENSORS; id++) {
        c.shape[id] = tensor_shape_of(p, id);
        ok = ok && sample_held(attention, &c.shape[id], id, &held[id], why);
        if (held[id] != NULL)
            view.at[id] = held[id];
    }
    if (p->operation == CLATTN_INDEXER && !p->indexer.gradients)
        view.chosen = results->out[OUTPUT_INDEXER_TOPK_INDICES];
    ok = ok && (judge_results(p, &view, precision, budget, compare, &c) ||
                message_set(why, "no memory for right results"));
    for (int id = 0; id < NUM_TENSORS; id++)
        free((void *)held[id]);
    return ok;
}

bool check_all_results(const struct attention_case *attention, const struct results *results,
                       struct worst *worst, struct check_place *place, struct message *why)
{
    *place = (struct check_place){.tensor = NULL};
    return compare_all(attention, results, PRECISION_SINGLE, INFINITY, worst, place, why);
}

bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why)
{
    return attention->job.is_layer
               ? check_layer(attention, results, precision, worst, why)
               : compare_all(attention, results, precision, SAMPLE_BUDGET, worst, NULL, why);
}
