/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a merge. */
#include "bench/judge/judge.h"
#include "bench/judge/merge.h"
#include "bench/judge/values.h"
#include "bench/verify/sample.h"

#include <stdlib.h>

enum { FEWEST_ROWS = 64 };

static void check_row(const clattn_merge_problem *p, const struct merge_view *view,
                      const struct results *results, size_t row, struct bounded *o,
                      struct worst *worst)
{
    const size_t i = row % p->seq_q, h = row / p->seq_q % p->heads, b = row / p->seq_q / p->heads;
    const struct merge_strides s = reference_merge_strides(p);
    struct bounded lse;

    reference_merge(p, view, b, h, i, o, &lse);
    for (size_t d = 0; results->out[OUTPUT_MERGE_O] != NULL && d < p->dim; d++)
        worst_add(worst,
                  value_get(p->dtype, results->out[OUTPUT_MERGE_O],
                            b * s.o[0] + h * s.o[1] + i * s.o[2] + d * s.o[3]),
                  o[d].value, o[d].bound);
    if (results->out[OUTPUT_MERGE_LSE] != NULL)
        worst_add(worst, value_get(CLATTN_F32, results->out[OUTPUT_MERGE_LSE], row), lse.value,
                  lse.bound);
}

bool check_merge(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_merge_problem *p = &attention->job.problem.merge;
    const size_t all = p->batch * p->heads * p->seq_q;
    const size_t rows = judge_affordable(
        SAMPLE_BUDGET, all, (double)(p->states + 1) * (double)p->dim * 16.0, FEWEST_ROWS);
    struct bounded *o = case_allocate(p->dim, sizeof *o, why);
    void *before = NULL, *before_lse = NULL;
    const bool ok = o != NULL && sample_held(attention, OUTPUT_MERGE_O, &before, why) &&
                    sample_held(attention, OUTPUT_MERGE_LSE, &before_lse, why);
    const struct merge_view view = {.parts = attention->in[INPUT_MERGE_PARTS].data,
                                    .parts_lse = attention->in[INPUT_MERGE_PARTS_LSE].data,
                                    .sinks = attention->in[INPUT_MERGE_SINKS].data,
                                    .o = before,
                                    .lse = before_lse};

    (void)precision; /* nobody else is asked to merge */
    for (size_t n = 0; ok && n < rows; n++)
        check_row(p, &view, results, judge_spread(n, rows, all), o, worst);
    free(o);
    free(before);
    free(before_lse);
    return ok;
}
