#include "check.h"
#include "values.h"

#include <math.h>
#include <stdlib.h>

#define WORK 2e7 /* Elements of K and V that are looked at. */
#define FEWEST_ROWS 32
#define TINY 0x1p-120 /* What a device may flush to zero, with room. */

/* Unit roundoffs. Nobody adds in bf16: libraries that store it add in f32. */
struct arithmetic {
    double value; /* Of what is stored on the way: scores, weights. */
    double sum;   /* Of a sum's adding up. */
    bool half;
};

/* One row of the score matrix and what its rounding may do. */
struct row {
    struct arithmetic arithmetic;
    size_t b, h, i;
    double queries, keys, diagonal; /* In use in this batch; what the diagonal counts from. */
    double *raw, *capped, *s;       /* The scores at each point; s is -inf where masked. */
    double *raw_slack, *slack;      /* How far they may be off from raw and from s. */
    double *o, *magnitude, *drift;  /* Over dim_v: the sum, sum p|v|, sum p slack |v|. */
    double *squares;                /* Over dim_v: sum (p v)^2. */
    double maximum, total;          /* Of the softmax. */
    double largest;                 /* |v| of the visible keys. */
    double mean_slack;              /* Mean of the relative errors of p, weighted by p. */
    size_t visible;
};

static struct arithmetic arithmetic_of(enum precision precision, clattn_dtype dtype)
{
    if (precision == PRECISION_SINGLE)
        return (struct arithmetic){.value = 0x1p-24, .sum = 0x1p-24};
    if (dtype == CLATTN_BF16)
        return (struct arithmetic){.value = 0x1p-8, .sum = 0x1p-24, .half = true};
    return (struct arithmetic){.value = 0x1p-11, .sum = 0x1p-11, .half = true};
}

/* How much a sum of n terms may be off, relative to the largest that it has been on the way. */
static double growth(const struct arithmetic *arithmetic, size_t n)
{
    return (6.0 * sqrt((double)n) + 4.0) * arithmetic->sum;
}

/* The largest that a sum may have been on the way, whatever the order of its terms: the sum of
 * magnitudes. That bound says nothing in half precision. There the order is taken for chance: then
 * a part strays from its share of the whole by 3 sqrt(sum of squares), but for odds below 1e-7. */
static double reach(const struct arithmetic *arithmetic, double sum, double magnitude,
                    double squares)
{
    return arithmetic->half ? fmin(magnitude, fabs(sum) + 3.0 * sqrt(squares)) : magnitude;
}

/* Errors of the weights, to be added up: at their worst, or as independent of each other, because
 * in half precision all of them at their worst would excuse any result. */
static double part(const struct arithmetic *arithmetic, double error)
{
    return arithmetic->half ? error * error : error;
}

static double parts_sum(const struct arithmetic *arithmetic, double parts)
{
    return arithmetic->half ? sqrt(parts) : parts;
}

static size_t at(const struct view *view, size_t b, size_t h, size_t s, size_t d)
{
    return b * view->stride[0] + h * view->stride[1] + s * view->stride[2] + d * view->stride[3];
}

/* The batch's count in use: the whole, or what `lengths` says, clamped. */
static double in_use(const struct block *lengths, size_t b, size_t whole)
{
    if (lengths->data == NULL)
        return (double)whole;
    const double length = ((const cl_int *)lengths->data)[b];
    return length < 0.0 ? 0.0 : length > (double)whole ? (double)whole : length;
}

/* Row `index` of all, counted as lse is packed. */
static void locate(const struct attention_case *c, size_t index, struct row *row)
{
    const clattn_problem *p = &c->problem;

    row->b = index / p->seq_q / p->heads;
    row->h = index / p->seq_q % p->heads;
    row->i = index % p->seq_q;
    row->queries = in_use(&c->in[INPUT_Q_LENGTHS], row->b, p->seq_q);
    row->keys = in_use(&c->in[INPUT_KV_LENGTHS], row->b, p->seq_kv);
    row->diagonal = p->diagonal == CLATTN_TOP_LEFT       ? 0.0
                    : p->diagonal == CLATTN_BOTTOM_RIGHT ? row->keys - row->queries
                                                         : (double)p->diagonal_offset;
}

/* In doubles: offsets near the ends of int64_t overflow nothing. */
static bool is_visible(const struct attention_case *c, const struct row *row, size_t j)
{
    const clattn_problem *p = &c->problem;
    const double now = (double)row->i + row->diagonal, key = (double)j;

    if ((double)row->i >= row->queries || key >= row->keys || (p->causal && key > now))
        return false;
    if (p->window_left >= 0 && key < now - (double)p->window_left)
        return false;
    if (p->window_right >= 0 && key > now + (double)p->window_right)
        return false;
    if (p->mask) {
        const struct view mask = case_input_view(p, INPUT_MASK);
        return (
            (const unsigned char *)c->in[INPUT_MASK].data)[at(&mask, row->b, row->h, row->i, j)];
    }
    return true;
}

/* The error of softcap() itself: of f32 functions on any device, of a library's result stored. */
static double softcap_slack(const struct arithmetic *a, double softcap, double s)
{
    return a->half ? 4.0 * a->value * fabs(s) : 16.0 * a->value * softcap;
}

/* Scores of the row at all points, with their slack. */
static void compute_scores(const struct attention_case *c, struct row *row)
{
    const clattn_problem *p = &c->problem;
    const struct view q = case_input_view(p, INPUT_Q), k = case_input_view(p, INPUT_K);
    const struct view bias = case_input_view(p, INPUT_BIAS);
    const struct arithmetic *a = &row->arithmetic;
    const size_t kv_head = row->h / (p->heads / p->kv_heads);
    const double scale = isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : (double)p->scale;

    for (size_t j = 0; j < p->seq_kv; j++) {
        double dot = 0.0, magnitude = 0.0, squares = 0.0;
        for (size_t d = 0; d < p->dim_qk; d++) {
            const double term =
                value_get(q.dtype, c->in[INPUT_Q].data, at(&q, row->b, row->h, row->i, d)) *
                value_get(k.dtype, c->in[INPUT_K].data, at(&k, row->b, kv_head, j, d));
            dot += term;
            magnitude += fabs(term);
            squares += term * term;
        }
        double s = scale * dot;
        double slack = growth(a, p->dim_qk) * fabs(scale) * reach(a, dot, magnitude, squares) +
                       4.0 * a->value * fabs(s) + TINY;
        if (a->half) /* q and k, or q times scale, are rounded */
            slack += 2.0 * a->value * fabs(scale) * magnitude;
        row->raw[j] = s;
        row->raw_slack[j] = slack;
        if (p->softcap > 0.0f) {
            s = (double)p->softcap * tanh(s / (double)p->softcap);
            slack += softcap_slack(a, (double)p->softcap, s);
        }
        row->capped[j] = s;
        if (p->bias) {
            const double b =
                value_get(bias.dtype, c->in[INPUT_BIAS].data, at(&bias, row->b, row->h, row->i, j));
            s += b;
            slack += 4.0 * a->value * (fabs(b) + fabs(s));
        }
        if (p->alibi) {
            const double slope = ((const float *)c->in[INPUT_SLOPES].data)[row->h];
            const double term = slope * ((double)j - (double)row->i - row->diagonal);
            s += term;
            slack += 4.0 * a->value * (fabs(term) + fabs(s));
        }
        row->s[j] = is_visible(c, row, j) ? s : -(double)INFINITY;
        row->slack[j] = slack;
    }
}

/* Maximum, sum and output of the row, with the sums that its bound needs. */
static void compute_output(const struct attention_case *c, struct row *row)
{
    const clattn_problem *p = &c->problem;
    const struct view v = case_input_view(p, INPUT_V);
    const struct arithmetic *a = &row->arithmetic;
    const size_t kv_head = row->h / (p->heads / p->kv_heads);
    const double sink =
        p->sinks ? (double)((const float *)c->in[INPUT_SINKS].data)[row->h] : -(double)INFINITY;

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
        row->mean_slack += part(a, weight * relative);
        for (size_t d = 0; d < p->dim_v; d++) {
            const double x = value_get(v.dtype, c->in[INPUT_V].data, at(&v, row->b, kv_head, j, d));
            row->o[d] += weight * x;
            row->magnitude[d] += weight * fabs(x);
            row->squares[d] += weight * x * weight * x;
            row->drift[d] += part(a, weight * relative * fabs(x));
            row->largest = fmax(row->largest, fabs(x));
        }
    }
    row->mean_slack = parts_sum(a, row->mean_slack) / row->total;
}

/* What the arithmetic may do to an output element of which it wants `want`. */
static double output_slack(const struct row *row, size_t d, double want, clattn_dtype dtype)
{
    const struct arithmetic *a = &row->arithmetic;
    const double on_the_way = reach(a, row->o[d], row->magnitude[d], row->squares[d]) / row->total;
    double slack = parts_sum(a, row->drift[d]) / row->total + row->mean_slack * fabs(want) +
                   growth(a, row->visible) * (on_the_way + fabs(want));

    if (a->half) /* stored before it is divided; and f16 has no weights below 2^-25 */
        slack +=
            4.0 * a->value * fabs(want) +
            (dtype == CLATTN_F16 ? value_tiny(dtype) * (double)row->visible * row->largest : 0.0);
    return slack;
}

static void check_output(const struct attention_case *c, const struct row *row,
                         const struct results *results, struct worst *worst)
{
    const clattn_problem *p = &c->problem;
    const struct view view = case_output_view(p);

    for (size_t d = 0; d < p->dim_v; d++) {
        const double got = value_get(view.dtype, results->o, at(&view, row->b, row->h, row->i, d));
        if (row->visible == 0) {
            worst_add(worst, got, 0.0, 0.0);
            continue;
        }
        const double want = row->o[d] / row->total;
        const double stored = value_roundoff(view.dtype) * fabs(want) + value_tiny(view.dtype);
        worst_add(worst, got, want, 1.01 * (output_slack(row, d, want, view.dtype) + stored));
    }
}

static void check_lse(const struct attention_case *c, const struct row *row, float got,
                      struct worst *worst)
{
    if (row->visible == 0) {
        worst_add(worst, (double)got, -(double)INFINITY, 0.0);
        return;
    }
    const struct arithmetic *a = &row->arithmetic;
    const double want = row->maximum + log(row->total);
    worst_add(worst, (double)got, want,
              row->mean_slack + growth(a, c->problem.seq_kv) +
                  4.0 * a->value * (fabs(row->maximum) + fabs(want)));
}

static void check_scores(const struct attention_case *c, const struct row *row, const float *got,
                         struct worst *worst)
{
    const clattn_problem *p = &c->problem;
    const struct arithmetic *a = &row->arithmetic;

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
            bound = row->raw_slack[j] + softcap_slack(a, (double)p->softcap, want);
            break;
        case CLATTN_SCORES_BIAS:
            want = row->s[j];
            bound = visible ? row->slack[j] : 0.0; /* slack is relative to exp(s): larger */
            break;
        default:
            want = visible ? exp(row->s[j] - row->maximum) / row->total : 0.0;
            if (visible)
                bound = want * (row->slack[j] + row->mean_slack + growth(a, p->seq_kv)) + TINY;
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

bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_problem *p = &attention->problem;
    const size_t all = p->batch * p->heads * p->seq_q;
    const double row_work = (double)(p->seq_kv + 1) * (double)(p->dim_qk + p->dim_v);
    const double affordable = fmax(WORK / row_work, FEWEST_ROWS);
    const size_t rows = (double)all <= affordable ? all : (size_t)affordable;
    struct row row;
    double *memory;

    if (!allocate_row(&row, p, &memory, why))
        return false;
    row.arithmetic = arithmetic_of(precision, p->dtype);
    for (size_t n = 0; n < rows; n++) {
        /* Even steps from the first row to the last. */
        const size_t index =
            rows == all ? n : (size_t)((double)n / (double)(rows - 1) * (double)(all - 1));
        locate(attention, index, &row);
        compute_scores(attention, &row);
        compute_output(attention, &row);
        check_output(attention, &row, results, worst);
        if (results->lse != NULL)
            check_lse(attention, &row, results->lse[index], worst);
        if (results->scores != NULL)
            check_scores(attention, &row, results->scores + index * p->seq_kv, worst);
    }
    free(memory);
    return true;
}
