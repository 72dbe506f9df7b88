/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of forward: those of o, lse and scores. */
#include "bench/judge/judge.h"
#include "bench/judge/row.h"

enum { FEWEST_ROWS = 32 };

static void visit_row(const clattn_problem *p, const struct tensor_view *view,
                      const struct reference_row *row, size_t b, size_t h, size_t i,
                      judge_visit *visit, void *user)
{
    size_t block, place;

    if (!tensor_locate_query(p, view, b, i, &block, &place))
        return; /* a sequence of a packed batch that is shorter */
    visit(user, TENSOR_O, (size_t[]){block, h, place, 0}, row->o, p->dim_v);
    if (p->lse)
        visit(user, TENSOR_LSE, (size_t[]){block, h, 0, place}, &row->lse, 1);
    if (p->scores != CLATTN_SCORES_NONE)
        visit(user, TENSOR_SCORES, (size_t[]){b, h, i, 0}, row->scores, p->seq_kv);
}

bool judge_rows(const clattn_problem *p, const struct tensor_view *view, enum precision precision,
                double budget, judge_visit *visit, void *user)
{
    const size_t all = p->batch * p->heads * p->seq_q;
    const double row_work = (double)(p->seq_kv + 1) * (double)(p->dim_qk + p->dim_v);
    const size_t count = judge_affordable(budget, all, row_work, FEWEST_ROWS);
    struct reference_row row;
    const bool ok = reference_row_open(p, precision, &row);

    for (size_t n = 0; ok && n < count; n++) {
        const size_t index = judge_spread(n, count, all);
        const size_t b = index / p->seq_q / p->heads, h = index / p->seq_q % p->heads;
        reference_row_compute(p, view, b, h, index % p->seq_q, &row);
        visit_row(p, view, &row, b, h, index % p->seq_q, visit, user);
    }
    reference_row_close(&row);
    return ok;
}
