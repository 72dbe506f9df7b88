/* The rows of forward: those of o, lse and scores. */
#include "bench/reference/row.h"
#include "bench/verify/sample.h"

enum { FEWEST_ROWS = 32 };

static void compare(const struct results *results, const clattn_problem *p,
                    const struct tensor_view *view, const struct reference_row *row, size_t b,
                    size_t h, size_t i, struct worst *worst)
{
    const struct tensor_shape o = tensor_shape_of(p, TENSOR_O);
    const struct tensor_shape lse = tensor_shape_of(p, TENSOR_LSE);
    const struct tensor_shape scores = tensor_shape_of(p, TENSOR_SCORES);
    size_t block, place;

    if (!tensor_locate_query(p, view, b, i, &block, &place))
        return; /* a sequence of a packed batch that is shorter */
    for (size_t d = 0; d < p->dim_v; d++)
        sample_compare(worst, results, TENSOR_O, &o, tensor_index(&o, block, h, place, d),
                       row->o[d]);
    sample_compare(worst, results, TENSOR_LSE, &lse, tensor_index(&lse, block, h, 0, place),
                   row->lse);
    for (size_t j = 0; scores.present && j < p->seq_kv; j++)
        sample_compare(worst, results, TENSOR_SCORES, &scores, tensor_index(&scores, b, h, i, j),
                       row->scores[j]);
}

bool check_rows(const struct attention_case *attention, const struct results *results,
                enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;
    const struct tensor_view view = sample_inputs(attention);
    const size_t all = p->batch * p->heads * p->seq_q;
    const double row_work = (double)(p->seq_kv + 1) * (double)(p->dim_qk + p->dim_v);
    const size_t count = sample_affordable(all, row_work, FEWEST_ROWS);
    struct reference_row row;

    const bool ok = reference_row_open(p, precision, &row) ||
                    message_set(why, "no memory for a row of %zu keys", p->seq_kv);
    for (size_t n = 0; ok && n < count; n++) {
        const size_t index = sample_spread(n, count, all);
        const size_t b = index / p->seq_q / p->heads, h = index / p->seq_q % p->heads;
        reference_row_compute(p, &view, b, h, index % p->seq_q, &row);
        compare(results, p, &view, &row, b, h, index % p->seq_q, worst);
    }
    reference_row_close(&row);
    return ok;
}
