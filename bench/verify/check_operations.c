/* SPDX-License-Identifier: Apache-2.0 */
/* Checks rows of the results of projections, merges and appends. */
#include "bench/judge/append.h"
#include "bench/judge/merge.h"
#include "bench/judge/projection.h"
#include "bench/verify/sample.h"

#include <stdlib.h>

struct comparing {
    const struct attention_case *attention;
    const struct results *results;
    const enum output *outputs; /* The outputs in the judge's numbering. */
    struct worst *worst;
};

static void compare(void *user, int output, const size_t at[4], const struct bounded *want,
                    size_t count)
{
    const struct comparing *c = user;
    const struct view view = case_output_view(&c->attention->job, c->outputs[output]);
    const void *got = c->results->out[c->outputs[output]];

    for (size_t d = 0; got != NULL && d < count; d++)
        worst_add(c->worst, view_get(&view, got, view_place(&view, at[0], at[1], at[2], d)),
                  want[d].value, want[d].bound);
}

static bool judged(bool ok, struct message *why)
{
    return ok || message_set(why, "no memory for right results");
}

bool check_projection(const struct attention_case *attention, const struct results *results,
                      enum precision precision, struct worst *worst, struct message *why)
{
    static const enum output outputs[] = {OUTPUT_PROJECTION_Y};
    struct comparing c = {attention, results, outputs, worst};
    void *before;
    const bool held = sample_held(attention, OUTPUT_PROJECTION_Y, &before, why);
    const struct projection_view view = {.x = attention->in[INPUT_PROJECTION_X].data,
                                         .w = attention->in[INPUT_PROJECTION_W].data,
                                         .bias = attention->in[INPUT_PROJECTION_BIAS].data,
                                         .before = before};
    const bool ok = held && judged(judge_projection(&attention->job.problem.projection, &view,
                                                    precision, SAMPLE_BUDGET, compare, &c),
                                   why);

    free(before);
    return ok;
}

bool check_merge(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why)
{
    static const enum output outputs[] = {
        [MERGED_O] = OUTPUT_MERGE_O, [MERGED_LSE] = OUTPUT_MERGE_LSE};
    struct comparing c = {attention, results, outputs, worst};
    void *before = NULL, *before_lse = NULL;
    const bool held = sample_held(attention, OUTPUT_MERGE_O, &before, why) &&
                      sample_held(attention, OUTPUT_MERGE_LSE, &before_lse, why);
    const struct merge_view view = {.parts = attention->in[INPUT_MERGE_PARTS].data,
                                    .parts_lse = attention->in[INPUT_MERGE_PARTS_LSE].data,
                                    .sinks = attention->in[INPUT_MERGE_SINKS].data,
                                    .o = before,
                                    .lse = before_lse};
    const bool ok =
        held &&
        judged(judge_merge(&attention->job.problem.merge, &view, SAMPLE_BUDGET, compare, &c), why);

    (void)precision; /* peers are not asked to merge */
    free(before);
    free(before_lse);
    return ok;
}

bool check_append(const struct attention_case *attention, const struct results *results,
                  enum precision precision, struct worst *worst, struct message *why)
{
    static const enum output outputs[APPEND_KINDS] = {[APPEND_K] = OUTPUT_APPEND_K_CACHE,
                                                      [APPEND_V] = OUTPUT_APPEND_V_CACHE,
                                                      [APPEND_Q] = OUTPUT_APPEND_Q_OUT};
    const clattn_append_problem *p = &attention->job.problem.append;
    struct comparing c = {attention, results, outputs, worst};
    void *queries;
    const bool held = sample_held(attention, OUTPUT_APPEND_Q_OUT, &queries, why);
    const bool in_place = p->queries == CLATTN_QUERIES_IN_PLACE;
    const struct append_view view = {
        .from = {[APPEND_K] = attention->in[INPUT_APPEND_K].data,
                 [APPEND_V] = attention->in[INPUT_APPEND_V].data,
                 [APPEND_Q] = in_place ? queries : attention->in[INPUT_APPEND_Q].data},
        .kv_lengths = attention->in[INPUT_APPEND_KV_LENGTHS].data,
        .positions = attention->in[INPUT_APPEND_POSITIONS].data,
        .slots = attention->in[INPUT_APPEND_SLOTS].data,
        .page_table = attention->in[INPUT_APPEND_PAGE_TABLE].data,
        .cos = attention->in[INPUT_APPEND_COS].data,
        .sin = attention->in[INPUT_APPEND_SIN].data};
    const bool ok = held && judged(judge_append(p, &view, SAMPLE_BUDGET, compare, &c), why);

    (void)precision; /* peers are not asked to append */
    free(queries);
    return ok;
}
