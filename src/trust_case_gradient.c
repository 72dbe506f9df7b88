/* Right answers of the backward direction, each with the error that f32 may leave on it: the rules
 * of trust_case_answer.c, carried through the formulas of clattn/problem.h. */
#include "philox.h"
#include "problem.h"
#include "trust_case.h"
#include "trust_case_row.h"
#include "trust_case_values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double u = CA_TRUST_ROUNDOFF;

/* ---- memory --------------------------------------------------------------------------------- */

void ca_gradients_free(struct ca_gradients *g)
{
    if (!g)
        return;
    free(g->keys);
    free(g->dq);
    free(g->dbias);
    free(g->dk);
    free(g->dv);
    free(g->dslopes);
    free(g->dsinks);
    free(g);
}

static int is_full(const clattn_problem *p)
{
    const size_t *s = p->bias_layout.stride, sizes[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};

    for (int n = 0; n < 4; n++)
        if (s[n] == 0 && sizes[n] > 1)
            return 0;
    return 1;
}

static int allocate(struct ca_bounded **answers, int wanted, size_t count)
{
    *answers = wanted ? calloc(count + 1, sizeof **answers) : NULL;
    return !wanted || *answers;
}

struct ca_gradients *ca_gradients_allocate(const clattn_problem *p, size_t num_rows,
                                           size_t num_keys, int sums)
{
    struct ca_gradients *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->num_keys = num_keys;
    g->keys = calloc(num_keys + 1, sizeof *g->keys);
    const int complete = g->keys && allocate(&g->dq, 1, num_rows * p->dim_qk) &&
                         allocate(&g->dbias, p->dbias && is_full(p), num_rows * p->seq_kv) &&
                         allocate(&g->dk, 1, num_keys * p->dim_qk) &&
                         allocate(&g->dv, 1, num_keys * p->dim_v) &&
                         allocate(&g->dslopes, p->dslopes && sums, p->heads) &&
                         allocate(&g->dsinks, p->dsinks && sums, p->heads);
    if (complete)
        return g;
    ca_gradients_free(g);
    return NULL;
}

/* Whether a row sees a key. */
static int sees_any(const struct ca_trust_case *c, const struct ca_trust_row *row)
{
    const clattn_problem *p = &c->problem;

    for (size_t j = 0; j < p->seq_kv; j++)
        if (ca_trust_row_sees(c, row, j) &&
            !(p->bias && ca_value_load(ca_trust_elements(c, CA_BIAS), p->bias_dtype,
                                       ca_trust_position(&p->bias_layout, row->b, row->h, row->i,
                                                         j)) == -INFINITY))
            return 1;
    return 0;
}

int ca_gradients_fill_lse(struct ca_trust_case *c, unsigned *state)
{
    const clattn_problem *p = &c->problem;
    unsigned char *lse = c->bytes[CA_LSE] + CA_TRUST_GUARD;
    struct ca_trust_row row;
    const int complete = ca_trust_row_open(p, &row);

    for (size_t n = 0; complete && n < p->batch * p->heads * p->seq_q; n++) {
        const float plausible = logf((float)p->seq_kv) + 1.0f + 0.5f * ca_value_next(state);
        ca_trust_row_locate(c, n, &row);
        ca_value_store(lse, CLATTN_F32, n, sees_any(c, &row) ? plausible : -INFINITY);
    }
    ca_trust_row_close(&row);
    return complete;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* A row with what all its pairs share. */
struct row {
    struct ca_trust_row scores;
    double *d_o, *other; /* dim_v; the longer dim */
    struct ca_bounded lse, delta;
    int loaded;
};

static int open_row(const clattn_problem *p, struct row *row)
{
    const size_t dim = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;

    memset(row, 0, sizeof *row);
    row->d_o = malloc(p->dim_v * sizeof(double));
    row->other = malloc(dim * sizeof(double));
    return ca_trust_row_open(p, &row->scores) && row->d_o && row->other;
}

static void close_row(struct row *row)
{
    ca_trust_row_close(&row->scores);
    free(row->d_o);
    free(row->other);
}

static void load(const struct ca_trust_case *c, enum ca_argument argument,
                 const clattn_layout *layout, size_t b, size_t h, size_t s, size_t dim, double *to)
{
    ca_values_load(ca_trust_elements(c, argument), c->problem.dtype,
                   ca_trust_position(layout, b, h, s, 0), layout->stride[3], dim, to);
}

static struct ca_bounded dot(const double *x, const double *y, size_t count)
{
    double sum = 0.0, magnitude = 0.0;

    for (size_t d = 0; d < count; d++) {
        sum += x[d] * y[d];
        magnitude += fabs(x[d] * y[d]);
    }
    return (struct ca_bounded){sum, ca_trust_length_error(count) * magnitude + FLT_MIN};
}

/* Goes to a row; its vectors are read when the first pair is seen: hidden rows hold anything. */
static void go_to(const struct ca_trust_case *c, size_t index, struct row *row)
{
    ca_trust_row_locate(c, index, &row->scores);
    row->lse.value = ca_value_load(ca_trust_elements(c, CA_LSE), CLATTN_F32, index);
    row->lse.bound = 2.0 * u * fabs(row->lse.value);
    row->loaded = 0;
}

static void load_row(const struct ca_trust_case *c, struct row *row)
{
    const clattn_problem *p = &c->problem;
    const struct ca_trust_row *at = &row->scores;

    if (row->loaded)
        return;
    load(c, CA_Q, &p->q, at->b, at->h, at->i, p->dim_qk, row->scores.q);
    load(c, CA_DO, &p->d_o, at->b, at->h, at->i, p->dim_v, row->d_o);
    load(c, CA_O, &p->o, at->b, at->h, at->i, p->dim_v, row->other);
    row->delta = dot(row->d_o, row->other, p->dim_v);
    row->loaded = 1;
}

/* p after dropout and ds of a pair, ds before and after softcap's derivative. */
struct pair {
    struct ca_bounded p, raw, ds;
};

/* False if the row does not see key j. */
static int look(const struct ca_trust_case *c, struct row *row, size_t j, struct pair *pair)
{
    const clattn_problem *p = &c->problem;
    struct ca_bounded unused;

    if (!ca_trust_row_sees(c, &row->scores, j))
        return 0;
    load_row(c, row);
    const struct ca_bounded s = ca_trust_row_score(c, &row->scores, j, &unused);
    if (s.value == -INFINITY)
        return 0;
    const double distance = s.value - row->lse.value;
    const double loose = expm1(s.bound + row->lse.bound + (8.0 + 3.0 * fabs(distance)) * u);
    const size_t head = row->scores.h / (p->heads / p->kv_heads);
    load(c, CA_V, &p->v, row->scores.b, head, j, p->dim_v, row->other);
    struct ca_bounded dp = dot(row->d_o, row->other, p->dim_v);
    double factor = 1.0;
    if (p->dropout > 0.0f) {
        factor = ca_dropout_factor(p, CA_TRUST_SEED, CA_TRUST_STREAM, row->scores.b, row->scores.h,
                                   row->scores.i, j);
        dp.value *= factor;
        dp.bound = factor * dp.bound + 4.0 * u * fabs(dp.value);
    }
    const double difference = dp.value - row->delta.value;
    pair->p.value = exp(distance);
    pair->p.bound = pair->p.value * loose + FLT_MIN;
    pair->raw.value = pair->p.value * difference;
    pair->raw.bound = pair->p.bound * fabs(difference) +
                      pair->p.value * (dp.bound + row->delta.bound) +
                      4.0 * u * pair->p.value * (fabs(dp.value) + fabs(row->delta.value)) + FLT_MIN;
    pair->p.value *= factor;
    pair->p.bound = factor * pair->p.bound + 4.0 * u * pair->p.value;
    pair->ds.value = pair->raw.value * row->scores.slope;
    pair->ds.bound = pair->raw.bound * row->scores.slope;
    if (p->softcap > 0.0f) /* tanh is off by its argument's error and a few units */
        pair->ds.bound += fabs(pair->raw.value) * (2.0 * s.bound / (double)p->softcap + 16.0 * u);
    return 1;
}

/* sums[d] += weight * vector[d]; the bounds collect what the weights may be off by, and terms[] the
 * magnitudes, whose rounding comes last. */
static void add(struct ca_bounded *sums, struct ca_bounded weight, const double *vector, size_t dim,
                double *terms)
{
    for (size_t d = 0; d < dim; d++) {
        sums[d].value += weight.value * vector[d];
        sums[d].bound += weight.bound * fabs(vector[d]);
        terms[d] += fabs(weight.value * vector[d]);
    }
}

static void finish(const clattn_problem *p, struct ca_bounded *sums, const double *terms,
                   size_t dim, size_t count, double factor)
{
    for (size_t d = 0; d < dim; d++) {
        const double error =
            fabs(factor) * (sums[d].bound + 2.0 * ca_trust_length_error(count) * terms[d]);
        sums[d].value *= factor;
        sums[d].bound = error + FLT_MIN;
        sums[d].bound += ca_value_rounding(p->dtype, fabs(sums[d].value) + error);
    }
}

/* ---- sweeps --------------------------------------------------------------------------------- */

/* dq and dbias of one row. */
static void solve_row(const struct ca_trust_case *c, size_t index, struct row *row, double *terms,
                      struct ca_bounded *dq, struct ca_bounded *dbias)
{
    const clattn_problem *p = &c->problem;
    size_t visible = 0;
    struct pair pair;

    memset(terms, 0, p->dim_qk * sizeof *terms);
    go_to(c, index, row);
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!look(c, row, j, &pair))
            continue;
        const size_t head = row->scores.h / (p->heads / p->kv_heads);
        load(c, CA_K, &p->k, row->scores.b, head, j, p->dim_qk, row->other);
        add(dq, pair.ds, row->other, p->dim_qk, terms);
        if (dbias) {
            dbias[j] = pair.raw;
            dbias[j].bound += ca_value_rounding(p->bias_dtype, fabs(pair.raw.value));
        }
        visible++;
    }
    finish(p, dq, terms, p->dim_qk, visible, (double)p->scale);
}

/* dk and dv of one key. */
static void solve_key(const struct ca_trust_case *c, size_t index, struct row *row, double *terms,
                      struct ca_bounded *dk, struct ca_bounded *dv)
{
    const clattn_problem *p = &c->problem;
    const size_t b = index / p->seq_kv / p->kv_heads, head = index / p->seq_kv % p->kv_heads;
    const size_t group = p->heads / p->kv_heads;
    double *terms_v = terms + p->dim_qk;
    size_t visible = 0;
    struct pair pair;

    memset(terms, 0, (p->dim_qk + p->dim_v) * sizeof *terms);
    for (size_t h = head * group; h < (head + 1) * group; h++)
        for (size_t i = 0; i < p->seq_q; i++) {
            go_to(c, (b * p->heads + h) * p->seq_q + i, row);
            if (!look(c, row, index % p->seq_kv, &pair))
                continue;
            add(dk, pair.ds, row->scores.q, p->dim_qk, terms);
            add(dv, pair.p, row->d_o, p->dim_v, terms_v);
            visible++;
        }
    finish(p, dk, terms, p->dim_qk, visible, (double)p->scale);
    finish(p, dv, terms_v, p->dim_v, visible, 1.0);
}

/* dslopes and dsinks of all heads. */
static void solve_sums(const struct ca_trust_case *c, struct row *row)
{
    const clattn_problem *p = &c->problem;
    const struct ca_gradients *g = c->gradients;
    const double rounding =
        2.0 * ca_trust_length_error(p->batch * p->seq_q * (g->dslopes ? p->seq_kv : 1));
    struct pair pair;

    for (size_t index = 0; index < p->batch * p->heads * p->seq_q; index++) {
        const size_t h = index / p->seq_q % p->heads;
        go_to(c, index, row);
        for (size_t j = 0; g->dslopes && j < p->seq_kv; j++) {
            if (!look(c, row, j, &pair))
                continue;
            const double distance =
                (double)((int64_t)j - (int64_t)row->scores.i - row->scores.diagonal);
            g->dslopes[h].value += pair.raw.value * distance;
            g->dslopes[h].bound +=
                (pair.raw.bound + rounding * fabs(pair.raw.value)) * fabs(distance);
        }
        if (g->dsinks && row->lse.value != -INFINITY) {
            const double sink = ca_value_load(ca_trust_elements(c, CA_SINKS), CLATTN_F32, h);
            const double weight = exp(sink - row->lse.value);
            load_row(c, row);
            g->dsinks[h].value -= weight * row->delta.value;
            g->dsinks[h].bound +=
                weight *
                (row->delta.bound +
                 fabs(row->delta.value) *
                     (rounding + (8.0 + 4.0 * fabs(sink) + 4.0 * fabs(row->lse.value)) * u));
        }
    }
}

int ca_gradients_solve(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    const struct ca_gradients *g = c->gradients;
    double *terms = malloc((p->dim_qk + p->dim_v) * sizeof *terms);
    struct row row;
    const int complete = open_row(p, &row) && terms;

    for (size_t n = 0; complete && n < c->num_rows; n++)
        solve_row(c, c->rows[n], &row, terms, g->dq + n * p->dim_qk,
                  g->dbias ? g->dbias + n * p->seq_kv : NULL);
    for (size_t n = 0; complete && n < g->num_keys; n++)
        solve_key(c, g->keys[n], &row, terms, g->dk + n * p->dim_qk, g->dv + n * p->dim_v);
    if (complete && (g->dslopes || g->dsinks))
        solve_sums(c, &row);
    close_row(&row);
    free(terms);
    return complete;
}
