/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verify/check.h"
#include "bench/judge/judge.h"
#include "bench/judge/values.h"
#include "bench/verify/sample.h"

#include <math.h>

/* ---- attention ------------------------------------------------------------------------------- */

struct comparing {
    const struct results *results;
    struct tensor_shape shape[NUM_TENSORS];
    struct worst *worst;
    struct check_place *place; /* NULL: it does not matter. */
};

/* The output that is a tensor of the judge; it has to be one. */
static enum output output_of(enum tensor_id id)
{
    switch (id) {
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_WRITTEN(WRITER, case TENSOR_##ID : return OUTPUT_##ID;)
        CA_OPERANDS(OPERAND)
#undef OPERAND
    default:
        return OUTPUT_COUNT;
    }
}

static void compare(void *user, enum tensor_id id, const size_t at[4], const struct bounded *want,
                    size_t count)
{
    const struct comparing *c = user;
    const struct tensor_shape *shape = &c->shape[id];
    const void *got = c->results->out[output_of(id)];
    const size_t first = tensor_index(shape, at[0], at[1], at[2], at[3]);

    for (size_t n = 0; got != NULL && n < count; n++) {
        const double value = value_get(shape->dtype, got, first + n * shape->stride[3]);
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
    const struct tensor_view view = sample_inputs(attention);
    struct comparing c = {.results = results, .worst = worst, .place = place};

    for (int id = 0; id < NUM_TENSORS; id++)
        c.shape[id] = tensor_shape_of(p, (enum tensor_id)id);
    return judge_attention(p, &view, precision, budget, compare, &c) ||
           message_set(why, "no memory for a row of %zu keys", p->seq_kv);
}

static bool check_attention(const struct attention_case *attention, const struct results *results,
                            enum precision precision, struct worst *worst, struct message *why)
{
    return compare_all(attention, results, precision, SAMPLE_BUDGET, worst, NULL, why);
}

bool check_all_results(const struct attention_case *attention, const struct results *results,
                       struct worst *worst, struct check_place *place, struct message *why)
{
    *place = (struct check_place){.tensor = NULL};
    return compare_all(attention, results, PRECISION_SINGLE, INFINITY, worst, place, why);
}

/* ---------------------------------------------------------------------------------------------- */

bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why)
{
    static bool (*const kinds[JOB_KINDS])(const struct attention_case *, const struct results *,
                                          enum precision, struct worst *, struct message *) = {
        [JOB_FORWARD] = check_attention,     [JOB_BACKWARD] = check_attention,
        [JOB_PROJECTION] = check_projection, [JOB_MERGE] = check_merge,
        [JOB_APPEND] = check_append,         [JOB_LAYER_FORWARD] = check_layer,
        [JOB_LAYER_BACKWARD] = check_layer,
    };

    return kinds[job_kind(&attention->job)](attention, results, precision, worst, why);
}
