/* Right answers in double precision, each with the error that f32 may leave on it.
 *
 * u = 2^-24 is the error of one f32 operation, relative to its result. A sum of n terms, in any
 * order and with fused or separate products, is off by at most (n + 8) u times the sum of the
 * terms' magnitudes; for long sums that bound is never met, as errors of either sign cancel like
 * steps of a random walk, so beyond n = 256 it grows with 16 sqrt(n). From there:
 *
 *   score    a sum of dim_qk products; softcap (tanh has 5 ulp) adds 16 u |s|, bias and ALiBi
 *            4 u (|s| + |bias| + |alibi|)
 *   weight   an error e of the score s and exp (4 ulp, and the argument s - m is rounded three
 *            times) give expm1(e + (8 + 3 |s - m|) u), relative to the weight
 *   o        a quotient of two sums over the visible keys
 *   lse      m + log of such a sum
 */
#include "problem.h"
#include "trust_case.h"
#include "trust_case_values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = 0x1p-24;

/* One row's way through the formula of clattn/problem.h; arrays are reused from row to row. */
struct row {
    size_t b, h, i;
    size_t queries, keys; /* in use */
    int64_t diagonal;
    double *q;       /* dim_qk */
    double *values;  /* a row of k or v */
    double *weights; /* seq_kv: first scores, -inf where hidden */
    double *slack;   /* seq_kv: the error of a score, then the relative error of a weight */
    double *errors;  /* dim_v */
};

static int open_row(const clattn_problem *p, struct row *row)
{
    const size_t dim = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;

    *row = (struct row){.q = malloc(p->dim_qk * sizeof(double)),
                        .values = malloc(dim * sizeof(double)),
                        .weights = malloc((p->seq_kv + 1) * sizeof(double)),
                        .slack = malloc((p->seq_kv + 1) * sizeof(double)),
                        .errors = malloc(p->dim_v * sizeof(double))};
    return row->q && row->values && row->weights && row->slack && row->errors;
}

static void close_row(struct row *row)
{
    free(row->q);
    free(row->values);
    free(row->weights);
    free(row->slack);
    free(row->errors);
}

static const unsigned char *elements(const struct ca_trust_case *c, enum ca_argument argument)
{
    return c->bytes[argument] + CA_TRUST_GUARD;
}

static size_t position(const clattn_layout *layout, size_t b, size_t h, size_t s, size_t d)
{
    return b * layout->stride[0] + h * layout->stride[1] + s * layout->stride[2] +
           d * layout->stride[3];
}

static double length_error(size_t n)
{
    return fmin((double)(n + 8), 16.0 * sqrt((double)n)) * u;
}

static size_t length_in_use(const struct ca_trust_case *c, enum ca_argument argument, size_t b,
                            size_t most)
{
    const cl_int *length;

    if (!c->bytes[argument])
        return most;
    length = (const cl_int *)(const void *)elements(c, argument) + b;
    return *length < 0 ? 0 : (size_t)*length < most ? (size_t)*length : most;
}

static void locate(const struct ca_trust_case *c, size_t index, struct row *row)
{
    const clattn_problem *p = &c->problem;

    row->b = index / p->seq_q / p->heads;
    row->h = index / p->seq_q % p->heads;
    row->i = index % p->seq_q;
    row->queries = length_in_use(c, CA_Q_LENGTHS, row->b, p->seq_q);
    row->keys = length_in_use(c, CA_KV_LENGTHS, row->b, p->seq_kv);
    row->diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT ? (int64_t)row->keys - (int64_t)row->queries
                                                       : ca_problem_diagonal(p);
}

/* Whether the row's query sees key j, but for a bias of -inf. */
static int sees(const struct ca_trust_case *c, const struct row *row, size_t j)
{
    const clattn_problem *p = &c->problem;
    const int64_t now = (int64_t)row->i + row->diagonal, key = (int64_t)j;

    return row->i < row->queries && j < row->keys &&
           (p->window_left == CLATTN_UNLIMITED || key >= now - p->window_left) &&
           (p->window_right == CLATTN_UNLIMITED || key <= now + p->window_right) &&
           (!p->mask ||
            elements(c, CA_MASK)[position(&p->mask_layout, row->b, row->h, row->i, j)] != 0);
}

/* The final score of key j, and its value at the point that the problem hands out, if that lies
 * before the masks; each with the error that it may have. */
static struct ca_bounded score(const struct ca_trust_case *c, const struct row *row, size_t j,
                               struct ca_bounded *shown)
{
    const clattn_problem *p = &c->problem;
    const size_t g = row->h / (p->heads / p->kv_heads);
    const double scale = (double)p->scale, cap = (double)p->softcap;
    double dot = 0.0, magnitude = 0.0, bias = 0.0, alibi = 0.0;

    ca_values_load(elements(c, CA_K), p->dtype, position(&p->k, row->b, g, j, 0), p->k.stride[3],
                   p->dim_qk, row->values);
    for (size_t d = 0; d < p->dim_qk; d++) {
        dot += row->q[d] * row->values[d];
        magnitude += fabs(row->q[d] * row->values[d]);
    }
    struct ca_bounded s = {scale * dot,
                           length_error(p->dim_qk) * fabs(scale) * magnitude + FLT_MIN};
    if (p->scores == CLATTN_SCORES_RAW)
        *shown = s;
    if (cap > 0.0) {
        s.value = cap * tanh(s.value / cap);
        s.bound += 16.0 * u * fabs(s.value);
    }
    if (p->scores == CLATTN_SCORES_SOFTCAP)
        *shown = s;
    if (p->bias)
        bias = ca_value_load(elements(c, CA_BIAS), p->bias_dtype,
                             position(&p->bias_layout, row->b, row->h, row->i, j));
    if (p->alibi)
        alibi = ca_value_load(elements(c, CA_SLOPES), CLATTN_F32, row->h) *
                (double)((int64_t)j - (int64_t)row->i - row->diagonal);
    if (p->bias || p->alibi)
        s.bound += 4.0 * u * (fabs(s.value) + fabs(bias) + fabs(alibi));
    s.value += bias + alibi;
    return bias == -INFINITY ? (struct ca_bounded){-INFINITY, 0.0} : s;
}

/* Scores into weights and slack; the number of keys that the query sees. */
static size_t score_row(const struct ca_trust_case *c, struct row *row, struct ca_bounded *out)
{
    const clattn_problem *p = &c->problem;
    const int shows_hidden = p->scores == CLATTN_SCORES_RAW || p->scores == CLATTN_SCORES_SOFTCAP;
    size_t visible = 0;

    ca_values_load(elements(c, CA_Q), p->dtype, position(&p->q, row->b, row->h, row->i, 0),
                   p->q.stride[3], p->dim_qk, row->q);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const int seen = sees(c, row, j);
        struct ca_bounded s = {-INFINITY, 0.0}, shown = s;
        if (seen || shows_hidden)
            s = score(c, row, j, &shown);
        if (!seen)
            s = (struct ca_bounded){-INFINITY, 0.0};
        row->weights[j] = s.value;
        row->slack[j] = s.bound;
        visible += s.value != -INFINITY;
        if (out)
            out[j] = shows_hidden ? shown : s; /* weights come later */
    }
    return visible;
}

/* Weights and what they may be off by; the sum of both, and the maximum. */
struct denominator {
    double most, sum, slack;
};

static struct denominator normalise(const struct ca_trust_case *c, struct row *row)
{
    const clattn_problem *p = &c->problem;
    const double sink =
        p->sinks ? ca_value_load(elements(c, CA_SINKS), CLATTN_F32, row->h) : -INFINITY;
    struct denominator den = {sink, 0.0, 0.0};

    for (size_t j = 0; j < p->seq_kv; j++)
        den.most = fmax(den.most, row->weights[j]);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const double distance = den.most - row->weights[j];
        row->weights[j] = exp(-distance);
        row->slack[j] =
            distance < INFINITY ? expm1(row->slack[j] + (8.0 + 3.0 * distance) * u) : 0.0;
        den.sum += row->weights[j];
        den.slack += row->weights[j] * row->slack[j];
    }
    if (p->sinks) {
        const double distance = den.most - sink;
        den.sum += exp(-distance);
        den.slack += exp(-distance) * (8.0 + 3.0 * distance + 2.0 * fabs(sink)) * u;
    }
    den.slack /= den.sum;
    for (size_t j = 0; j < p->seq_kv; j++)
        row->weights[j] /= den.sum;
    return den;
}

/* o = sum of weight * v over the visible keys. gather: the relative error of such sums. */
static void weigh_values(const struct ca_trust_case *c, struct row *row,
                         const struct denominator *den, double gather, struct ca_bounded *o)
{
    const clattn_problem *p = &c->problem;
    const size_t g = row->h / (p->heads / p->kv_heads);

    for (size_t d = 0; d < p->dim_v; d++)
        o[d].value = row->errors[d] = 0.0;
    for (size_t j = 0; j < p->seq_kv; j++) {
        const double weight = row->weights[j], error = weight * (row->slack[j] + gather);
        if (!(weight > 0.0)) /* what hidden keys hold must not be looked at */
            continue;
        ca_values_load(elements(c, CA_V), p->dtype, position(&p->v, row->b, g, j, 0),
                       p->v.stride[3], p->dim_v, row->values);
        for (size_t d = 0; d < p->dim_v; d++) {
            o[d].value += weight * row->values[d];
            row->errors[d] += error * fabs(row->values[d]);
        }
    }
    for (size_t d = 0; d < p->dim_v; d++) {
        const double magnitude = fabs(o[d].value);
        const double error = row->errors[d] + magnitude * (den->slack + gather) + FLT_MIN;
        o[d].bound = error + ca_value_rounding(p->dtype, magnitude + error);
    }
}

static void solve_row(const struct ca_trust_case *c, struct row *row, struct ca_bounded *o,
                      struct ca_bounded *lse, struct ca_bounded *scores)
{
    const clattn_problem *p = &c->problem;
    const size_t visible = score_row(c, row, scores);
    const double gather = 2.0 * length_error(visible);

    if (visible == 0) {
        for (size_t d = 0; d < p->dim_v; d++)
            o[d] = (struct ca_bounded){0.0, 0.0};
        for (size_t j = 0; p->scores == CLATTN_SCORES_WEIGHTS && j < p->seq_kv; j++)
            scores[j] = (struct ca_bounded){0.0, 0.0};
        *lse = (struct ca_bounded){-INFINITY, 0.0};
        return;
    }
    const struct denominator den = normalise(c, row);
    weigh_values(c, row, &den, gather, o);
    for (size_t j = 0; p->scores == CLATTN_SCORES_WEIGHTS && j < p->seq_kv; j++)
        scores[j] = (struct ca_bounded){
            row->weights[j],
            row->weights[j] * (row->slack[j] + den.slack + 2.0 * gather) + 2.0 * FLT_MIN};
    lse->value = den.most + log(den.sum);
    lse->bound = den.slack + gather + 8.0 * u * (1.0 + fabs(den.most) + fabs(lse->value));
}

int ca_trust_case_solve(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    struct row row;
    const int complete = open_row(p, &row);

    for (size_t n = 0; complete && n < c->num_rows; n++) {
        locate(c, c->rows[n], &row);
        solve_row(c, &row, c->o + n * p->dim_v, c->lse + n,
                  c->scores ? c->scores + n * p->seq_kv : NULL);
    }
    close_row(&row);
    return complete;
}
