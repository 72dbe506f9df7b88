/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an append, and rows that no token goes to. */
#include "bench/judge/append.h"
#include "bench/judge/judge.h"
#include "bench/judge/values.h"
#include "bench/verify/sample.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 64 };

static const enum output written[APPEND_KINDS] = {[APPEND_K] = OUTPUT_APPEND_K_CACHE,
                                                  [APPEND_V] = OUTPUT_APPEND_V_CACHE,
                                                  [APPEND_Q] = OUTPUT_APPEND_Q_OUT};

/* Compares one row, if its token is not skipped. */
static void check_row(const struct attention_case *attention, const struct append_view *data,
                      enum append_kind kind, size_t row, const void *got, struct bounded *want,
                      struct worst *worst)
{
    const clattn_append_problem *p = &attention->job.problem.append;
    const struct append_strides s = reference_append_strides(p, kind);
    const struct view view = case_output_view(&attention->job, written[kind]);
    const size_t i = row % p->tokens, h = row / p->tokens % s.heads, b = row / p->tokens / s.heads;
    const int64_t place =
        kind == APPEND_Q ? (int64_t)(b * p->tokens + i) : reference_append_place(p, data, b, i);

    if (place < 0)
        return;
    reference_append(p, data, kind, b, h, i, want);
    const size_t first =
        (size_t)place / s.rows * s.to[0] + h * s.to[1] + (size_t)place % s.rows * s.to[2];
    for (size_t d = 0; d < s.dim; d++)
        worst_add(worst, view_get(&view, got, first + d * s.to[3]), want[d].value, want[d].bound);
}

bool check_append(const struct attention_case *attention, const struct results *results,
                  enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_append_problem *p = &attention->job.problem.append;
    const size_t longest = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;
    struct bounded *want = case_allocate(longest, sizeof *want, why);
    void *held = NULL;
    const bool ok = want != NULL && sample_held(attention, OUTPUT_APPEND_Q_OUT, &held, why);
    const bool in_place = p->queries == CLATTN_QUERIES_IN_PLACE;
    const struct append_view view = {
        .from = {[APPEND_K] = attention->in[INPUT_APPEND_K].data,
                 [APPEND_V] = attention->in[INPUT_APPEND_V].data,
                 [APPEND_Q] = in_place ? held : attention->in[INPUT_APPEND_Q].data},
        .kv_lengths = attention->in[INPUT_APPEND_KV_LENGTHS].data,
        .positions = attention->in[INPUT_APPEND_POSITIONS].data,
        .slots = attention->in[INPUT_APPEND_SLOTS].data,
        .page_table = attention->in[INPUT_APPEND_PAGE_TABLE].data,
        .cos = attention->in[INPUT_APPEND_COS].data,
        .sin = attention->in[INPUT_APPEND_SIN].data};

    (void)precision; /* nobody else is asked to append */
    for (int kind = 0; ok && kind < APPEND_KINDS; kind++) {
        const size_t heads = kind == APPEND_Q ? p->heads : p->kv_heads;
        const size_t all = p->batch * heads * p->tokens;
        const size_t rows =
            judge_affordable(SAMPLE_BUDGET, all, (double)longest * 64.0, FEWEST_ROWS);
        for (size_t n = 0; results->out[written[kind]] != NULL && n < rows; n++)
            check_row(attention, &view, (enum append_kind)kind, judge_spread(n, rows, all),
                      results->out[written[kind]], want, worst);
    }
    free(want);
    free(held);
    return ok;
}
