#include "bench/verify/check_row.h"
#include "cli/values.h"

#include <math.h>
#include <stdlib.h>

#define FEWEST_ROWS 32

/* One row of the score matrix and what its rounding may do. */
struct row {
    const struct check *check;
    struct check_row at;
    double *raw, *capped, *s;      /* The scores at each point; s is -inf where masked. */
    double *raw_slack, *slack;     /* How far they may be off from raw and from s. */
    double *o, *magnitude, *drift; /* Over dim_v: the sum, sum p|v|, sum p slack |v|. */
    double *squares;               /* Over dim_v: sum (p v)^2. */
    double maximum, total;         /* Of the softmax. */
    double largest;                /* |v| of the visible keys. */
    double mean_slack;             /* Mean of the relative errors of p, weighted by p. */
    size_t visible;
};

static void compute_scores(struct row *row)
{
    for (size_t j = 0; j < row->check->attention->job.problem.seq_kv; j++) {
        const struct check_score score = check_row_score(row->check, &row->at, j);
        row->raw[j] = score.raw;
        row->capped[j] = score.capped;
        row->s[j] = score.s;
        row->raw_slack[j] = score.raw_slack;
        row->slack[j] = score.slack;
    }
}

/* Maximum, sum and output of the row, with the sums that its bound needs. */
static void compute_output(struct row *row)
{
    const struct attention_case *c = row->check->attention;
    const clattn_problem *p = &c->job.problem;
    const struct view *v = &row->check->in[INPUT_V];
    const struct arithmetic *a = &row->check->arithmetic;
    const size_t kv_head = row->at.h / (p->heads / p->kv_heads);
    const double sink = p->sinks ? check_sink(row->check, row->at.h) : -(double)INFINITY;

    row->maximum = sink;
    row->visible = 0;
    for (size_t j = 0; j < p->seq_kv; j++) {
        row->visible += row->s[j] > -(double)INFINITY;
        row->maximum = row->s[j] > row->maximum ? row->s[j] : row->maximum;
    }
    row->total = sink > -(double)INFINITY ? exp(sink - row->maximum) : 0.0;
    row->mean_slack = row->largest = 0.0;
    for (size_t d = 0; d < p->dim_v; d++)
        row->o[d] = row->magnitude[d] = row->drift[d] = row->squares[d] = 0.0;
    if (row->visible == 0)
        return;
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!(row->s[j] > -(double)INFINITY))
            continue;
        const double weight = exp(row->s[j] - row->maximum);
        /* The score's error, that of the difference to the maximum, that of exp. */
        double relative = expm1(row->slack[j]) +
                          a->value * (2.0 * fabs(row->s[j]) + 2.0 * fabs(row->maximum) + 16.0);
        if (a->half) /* a weight that is nothing or double is wrong in any arithmetic */
            relative = fmin(relative, 1.0);
        row->slack[j] = relative;
        row->total += weight;
        row->mean_slack += check_part(a, weight * relative);
        const double kept = weight * check_kept(row->check, &row->at, j);
        for (size_t d = 0; d < p->dim_v; d++) {
            const double x =
                view_get(v, c->in[INPUT_V].data, view_place(v, row->at.b, kv_head, j, d));
            row->o[d] += kept * x;
            row->magnitude[d] += kept * fabs(x);
            row->squares[d] += kept * x * kept * x;
            row->drift[d] += check_part(a, kept * relative * fabs(x));
            row->largest = fmax(row->largest, fabs(x));
        }
    }
    row->mean_slack = check_parts_sum(a, row->mean_slack) / row->total;
}

/* What the arithmetic may do to an output element of which it wants `want`. */
static double output_slack(const struct row *row, size_t d, double want, clattn_dtype dtype)
{
    const struct arithmetic *a = &row->check->arithmetic;
    const double on_the_way =
        check_reach(a, row->o[d], row->magnitude[d], row->squares[d]) / row->total;
    double slack = check_parts_sum(a, row->drift[d]) / row->total + row->mean_slack * fabs(want) +
                   check_growth(a, row->visible) * (on_the_way + fabs(want));

    if (a->half) /* stored before it is divided; and f16 has no weights below 2^-25 */
        slack +=
            4.0 * a->value * fabs(want) +
            (dtype == CLATTN_F16 ? value_tiny(dtype) * (double)row->visible * row->largest : 0.0);
    return slack;
}

static void check_output(const struct row *row, const struct results *results, struct worst *worst)
{
    const clattn_problem *p = &row->check->attention->job.problem;
    const struct view view = case_output_view(&row->check->attention->job, OUTPUT_O);

    for (size_t d = 0; d < p->dim_v; d++) {
        const double got = value_get(view.dtype, results->out[OUTPUT_O],
                                     view_place(&view, row->at.b, row->at.h, row->at.i, d));
        if (row->visible == 0) {
            worst_add(worst, got, 0.0, 0.0);
            continue;
        }
        const double want = row->o[d] / row->total;
        const double stored = check_storing(view.dtype, want);
        worst_add(worst, got, want, 1.01 * (output_slack(row, d, want, view.dtype) + stored));
    }
}

static void check_lse(const struct row *row, float got, struct worst *worst)
{
    if (row->visible == 0) {
        worst_add(worst, (double)got, -(double)INFINITY, 0.0);
        return;
    }
    const struct arithmetic *a = &row->check->arithmetic;
    const double want = row->maximum + log(row->total);
    worst_add(worst, (double)got, want,
              row->mean_slack + check_growth(a, row->check->attention->job.problem.seq_kv) +
                  4.0 * a->value * (fabs(row->maximum) + fabs(want)));
}

static void check_scores(const struct row *row, const float *got, struct worst *worst)
{
    const clattn_problem *p = &row->check->attention->job.problem;
    const struct arithmetic *a = &row->check->arithmetic;

    for (size_t j = 0; j < p->seq_kv; j++) {
        const bool visible = row->s[j] > -(double)INFINITY;
        double want, bound = 0.0;
        switch (p->scores) {
        case CLATTN_SCORES_RAW:
            want = row->raw[j];
            bound = row->raw_slack[j];
            break;
        case CLATTN_SCORES_SOFTCAP:
            want = row->capped[j];
            bound = row->raw_slack[j] + check_softcap_slack(a, (double)p->softcap, want);
            break;
        case CLATTN_SCORES_BIAS:
            want = row->s[j];
            bound = visible ? row->slack[j] : 0.0; /* slack is relative to exp(s): larger */
            break;
        default:
            want = visible ? exp(row->s[j] - row->maximum) / row->total : 0.0;
            if (visible)
                bound = want * (row->slack[j] + row->mean_slack + check_growth(a, p->seq_kv)) +
                        CHECK_TINY;
        }
        worst_add(worst, (double)got[j], want, bound);
    }
}

static bool allocate_row(struct row *row, const clattn_problem *p, double **memory,
                         struct message *why)
{
    double *next = *memory = case_allocate(5 * p->seq_kv + 4 * p->dim_v, sizeof **memory, why);
    double **const arrays[] = {&row->raw, &row->capped, &row->s, &row->raw_slack, &row->slack};

    if (next == NULL)
        return false;
    for (int n = 0; n < 5; n++, next += p->seq_kv)
        *arrays[n] = next;
    row->o = next;
    row->magnitude = next + p->dim_v;
    row->drift = next + 2 * p->dim_v;
    row->squares = next + 3 * p->dim_v;
    return true;
}

/* The rows of forward: those of o, lse and scores. */
static bool check_rows(const struct attention_case *attention, const struct results *results,
                       enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;
    const float *lse = results->out[OUTPUT_LSE], *scores = results->out[OUTPUT_SCORES];
    const size_t all = p->batch * p->heads * p->seq_q;
    const double row_work = (double)(p->seq_kv + 1) * (double)(p->dim_qk + p->dim_v);
    const size_t rows = check_affordable(all, row_work, FEWEST_ROWS);
    struct check check;
    struct row row = {.check = &check};
    double *memory = NULL;

    const bool ok =
        check_begin(&check, attention, precision, why) && allocate_row(&row, p, &memory, why);
    for (size_t n = 0; ok && n < rows; n++) {
        const size_t index = check_spread(n, rows, all);
        row.at = check_row_locate(&check, index);
        compute_scores(&row);
        compute_output(&row);
        check_output(&row, results, worst);
        if (lse != NULL)
            check_lse(&row, lse[index], worst);
        if (scores != NULL)
            check_scores(&row, scores + index * p->seq_kv, worst);
    }
    check_end(&check);
    free(memory);
    return ok;
}

void results_release(struct results *results)
{
    for (int n = 0; n < OUTPUT_COUNT; n++)
        free(results->out[n]);
    *results = (struct results){{NULL}};
}

bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why)
{
    static bool (*const kinds[JOB_KINDS])(const struct attention_case *, const struct results *,
                                          enum precision, struct worst *, struct message *) = {
        [JOB_FORWARD] = check_rows,          [JOB_BACKWARD] = check_gradients,
        [JOB_PROJECTION] = check_projection, [JOB_LAYER_FORWARD] = check_layer,
        [JOB_LAYER_BACKWARD] = check_layer,
    };

    return kinds[job_kind(&attention->job)](attention, results, precision, worst, why);
}
