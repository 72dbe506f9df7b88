/* The loss sum(do * o) by the forward formulas in double precision, and its central differences. */
#include "gradient_check/gradient_check.h"
#include "problem/philox.h"
#include "problem/problem.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Scores of what the row sees, into weights; returns their maximum, the sink's included. */
static double find_scores(const struct ca_trust_case *c, struct ca_trust_row *row, double sink)
{
    const clattn_problem *p = &c->problem;
    double most = -INFINITY;
    struct ca_bounded unused;

    ca_pair_load(c, CA_Q, &p->q, row->b, row->h, row->i, p->dim_qk, row->q);
    for (size_t j = 0; j < p->seq_kv; j++) {
        row->weights[j] =
            ca_trust_row_sees(c, row, j) ? ca_trust_row_score(c, row, j, &unused).value : -INFINITY;
        most = fmax(most, row->weights[j]);
    }
    return most == -INFINITY ? most : fmax(most, sink);
}

/* do * o, and o, with the weights normalised. */
static double sum_values(const struct ca_trust_case *c, struct ca_trust_row *row, double most,
                         double total, double *o)
{
    const clattn_problem *p = &c->problem;
    const size_t head = row->h / (p->heads / p->kv_heads);
    double *d_o = row->errors, loss = 0.0;

    ca_pair_load(c, CA_DO, &p->d_o, row->b, row->h, row->i, p->dim_v, d_o);
    for (size_t j = 0; j < p->seq_kv; j++) {
        double weight = exp(row->weights[j] - most) / total;
        if (row->weights[j] == -INFINITY)
            continue;
        if (p->dropout > 0.0f)
            weight *=
                ca_dropout_factor(p, CA_TRUST_SEED, CA_TRUST_STREAM, row->b, row->h, row->i, j);
        ca_pair_load(c, CA_V, &p->v, row->b, head, j, p->dim_v, row->values);
        for (size_t d = 0; d < p->dim_v; d++) {
            loss += weight * d_o[d] * row->values[d];
            if (o)
                o[d] += weight * row->values[d];
        }
    }
    return loss;
}

double ca_row_loss(const struct ca_trust_case *c, struct ca_trust_row *row, size_t index, double *o,
                   double *lse)
{
    const clattn_problem *p = &c->problem;
    double total = 0.0;

    ca_trust_row_locate(c, index, row);
    const double sink =
        p->sinks ? ca_value_load(ca_trust_elements(c, CA_SINKS), CLATTN_F32, row->h) : -INFINITY;
    const double most = find_scores(c, row, sink);
    if (o)
        memset(o, 0, p->dim_v * sizeof *o);
    if (most == -INFINITY) { /* sees nothing */
        if (lse)
            *lse = -INFINITY;
        return 0.0;
    }
    for (size_t j = 0; j < p->seq_kv; j++)
        total += exp(row->weights[j] - most);
    total += exp(sink - most);
    if (lse)
        *lse = most + log(total);
    return sum_values(c, row, most, total, o);
}

/* ---- differences ----------------------------------------------------------------------------- */

/* Rows from first up to end of each dimension that depend on one element. */
struct rows {
    size_t first[3], end[3]; /* batch, heads, seq_q */
};

static void touch(struct rows *r, int dim, size_t first, size_t count)
{
    r->first[dim] = first;
    r->end[dim] = first + count;
}

static struct rows rows_of(const clattn_problem *p, enum ca_argument gradient,
                           const struct ca_tensor *t, const size_t index[4])
{
    const size_t group = p->heads / p->kv_heads;
    struct rows r = {{0, 0, 0}, {p->batch, p->heads, p->seq_q}};

    switch (gradient) {
    case CA_DQ:
        for (int d = 0; d < 3; d++)
            touch(&r, d, index[d], 1);
        break;
    case CA_DK:
    case CA_DV:
        touch(&r, 0, index[0], 1);
        touch(&r, 1, index[1] * group, group);
        break;
    case CA_DBIAS:
        for (int d = 0; d < 3; d++)
            if (t->layout.stride[d] != 0)
                touch(&r, d, index[d], 1);
        break;
    default: /* of a head */
        touch(&r, 1, index[3], 1);
    }
    return r;
}

size_t ca_rows_touched(const clattn_problem *p, enum ca_argument gradient)
{
    const size_t *stride = p->bias_layout.stride;

    switch (gradient) {
    case CA_DQ:
        return 1;
    case CA_DK:
    case CA_DV:
        return p->heads / p->kv_heads * p->seq_q;
    case CA_DBIAS:
        return (stride[0] ? 1 : p->batch) * (stride[1] ? 1 : p->heads) * (stride[2] ? 1 : p->seq_q);
    default:
        return p->batch * p->seq_q;
    }
}

/* The loss of the rows that matter; *magnitude of its terms. */
static double loss_of(const struct ca_trust_case *c, struct ca_trust_row *row, const struct rows *r,
                      double *magnitude)
{
    const clattn_problem *p = &c->problem;
    double loss = 0.0;

    *magnitude = 0.0;
    for (size_t b = r->first[0]; b < r->end[0]; b++)
        for (size_t h = r->first[1]; h < r->end[1]; h++)
            for (size_t i = r->first[2]; i < r->end[2]; i++) {
                const double one =
                    ca_row_loss(c, row, (b * p->heads + h) * p->seq_q + i, NULL, NULL);
                loss += one;
                *magnitude += fabs(one);
            }
    return loss;
}

/* The input that a gradient belongs to, and where its elements lie. */
static enum ca_argument input_of(const clattn_problem *p, enum ca_argument gradient,
                                 const clattn_layout **layout)
{
    static const clattn_layout list = {{0, 0, 0, 1}};

    switch (gradient) {
    case CA_DQ:
        *layout = &p->q;
        return CA_Q;
    case CA_DK:
        *layout = &p->k;
        return CA_K;
    case CA_DV:
        *layout = &p->v;
        return CA_V;
    case CA_DBIAS:
        *layout = &p->bias_layout;
        return CA_BIAS;
    default:
        *layout = &list;
        return gradient == CA_DSLOPES ? CA_SLOPES : CA_SINKS;
    }
}

/* A slope moves scores by the distance of keys; the others by little more than themselves. Powers of
 * two, so that x +- step is exact. */
static double step_of(const clattn_problem *p, enum ca_argument gradient)
{
    double step = 0x1p-7;

    for (size_t distance = 1;
         gradient == CA_DSLOPES && distance < p->seq_q + p->seq_kv && step > 0x1p-20; distance *= 2)
        step /= 2.0;
    return step;
}

int ca_loss_difference(struct ca_trust_case *c, enum ca_argument gradient,
                       const struct ca_tensor *tensor, size_t n, struct ca_bounded *difference)
{
    const clattn_problem *p = &c->problem;
    const clattn_layout *layout;
    double quotient[2], magnitude, another, rounding = 0.0, step = step_of(p, gradient);
    struct ca_trust_row row;
    size_t index[4];

    if (p->batch == 0 || p->seq_q == 0 || p->seq_kv == 0) { /* no pair, so nothing depends on it */
        *difference = (struct ca_bounded){0.0, 0.0};
        return 1;
    }
    const enum ca_argument input = input_of(p, gradient, &layout);
    ca_gradient_index(tensor, n, index);
    const struct rows rows = rows_of(p, gradient, tensor, index);
    const size_t at = ca_trust_position(layout, index[0], index[1], index[2], index[3]);
    unsigned char *bytes = c->bytes[input] + CA_TRUST_GUARD;
    const float value = (float)ca_value_load(bytes, CLATTN_F32, at);
    const int complete = ca_trust_row_open(p, &row);
    for (int halved = 0; complete && halved < 2; halved++, step /= 2.0) {
        ca_value_store(bytes, CLATTN_F32, at, value + (float)step);
        const double more = loss_of(c, &row, &rows, &magnitude);
        ca_value_store(bytes, CLATTN_F32, at, value - (float)step);
        const double less = loss_of(c, &row, &rows, &another);
        quotient[halved] = (more - less) / (2.0 * step);
        rounding = 64.0 * DBL_EPSILON * (magnitude + another) / step;
    }
    ca_value_store(bytes, CLATTN_F32, at, value);
    ca_trust_row_close(&row);
    if (!complete)
        return 0;
    /* L. F. Richardson (1911): the error of second order cancels; what it was bounds the rest. */
    difference->value = (4.0 * quotient[1] - quotient[0]) / 3.0;
    difference->bound = 0.25 * fabs(quotient[1] - quotient[0]) + rounding;
    return 1;
}
