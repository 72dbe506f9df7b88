#include "gradient_check/gradient_check.h"
#include "problem/problem.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double u = CA_TRUST_ROUNDOFF;

void ca_gradient_index(const struct ca_tensor *tensor, size_t n, size_t index[4])
{
    for (int d = 3; d >= 0; d--) {
        index[d] = n % tensor->sizes[d];
        n /= tensor->sizes[d];
    }
}

/* Sums with the magnitudes of their terms, whose rounding comes last. */
struct sums {
    struct ca_bounded *sum;
    double *terms;
    size_t size[4]; /* as ca_tensor's */
};

struct sweep {
    const struct ca_trust_case *c;
    struct sums of[CA_NUM_GRADIENTS];
    struct ca_pair_row row;
    double *key; /* dim_qk: a row of k */
};

static struct sums *sums_of(struct sweep *s, enum ca_argument gradient)
{
    struct sums *sums = &s->of[gradient - CA_DQ];

    return sums->sum ? sums : NULL;
}

static size_t place(const struct sums *s, size_t b, size_t h, size_t i, size_t d)
{
    return ((b * s->size[1] + h) * s->size[2] + i) * s->size[3] + d;
}

/* weight * vector added from place `at` on. */
static void add(struct sums *s, size_t at, struct ca_bounded weight, const double *vector,
                size_t count)
{
    for (size_t d = 0; d < count; d++) {
        s->sum[at + d].value += weight.value * vector[d];
        s->sum[at + d].bound += weight.bound * fabs(vector[d]);
        s->terms[at + d] += fabs(weight.value * vector[d]);
    }
}

static void add_pair(struct sweep *s, size_t j, const struct ca_pair *pair)
{
    const clattn_problem *p = &s->c->problem;
    const struct ca_trust_row *at = &s->row.scores;
    const size_t head = at->h / (p->heads / p->kv_heads);
    const double distance = ca_trust_distance(p, at, j), one = 1.0;
    const struct ca_bounded weight = ca_trust_operand(p, pair->p);
    const struct ca_bounded ds = ca_trust_operand(p, pair->ds);
    struct sums *sums;

    ca_pair_load(s->c, CA_K, &p->k, at->b, head, j, p->dim_qk, s->key);
    if ((sums = sums_of(s, CA_DQ)) != NULL)
        add(sums, place(sums, at->b, at->h, at->i, 0), ds, s->key, p->dim_qk);
    if ((sums = sums_of(s, CA_DK)) != NULL)
        add(sums, place(sums, at->b, head, j, 0), ds, at->q, p->dim_qk);
    if ((sums = sums_of(s, CA_DV)) != NULL)
        add(sums, place(sums, at->b, head, j, 0), weight, s->row.d_o, p->dim_v);
    if ((sums = sums_of(s, CA_DBIAS)) != NULL)
        add(sums,
            place(sums, at->b % sums->size[0], at->h % sums->size[1], at->i % sums->size[2],
                  j % sums->size[3]),
            pair->raw, &one, 1);
    if ((sums = sums_of(s, CA_DSLOPES)) != NULL)
        add(sums, at->h, pair->raw, &distance, 1);
}

static void add_sink(struct sweep *s)
{
    struct sums *sums = sums_of(s, CA_DSINKS);
    const double one = 1.0;

    if (!sums || s->row.lse.value == -INFINITY)
        return;
    const size_t h = s->row.scores.h;
    const double sink = ca_value_load(ca_trust_elements(s->c, CA_SINKS), CLATTN_F32, h);
    const double weight = exp(sink - s->row.lse.value), delta = s->row.delta.value;
    const double loose = (8.0 + 4.0 * fabs(sink) + 4.0 * fabs(s->row.lse.value)) * u;
    add(sums, h,
        (struct ca_bounded){-weight * delta, weight * (s->row.delta.bound + fabs(delta) * loose)},
        &one, 1);
}

/* How many terms an element sums at most. */
static size_t most_terms(const clattn_problem *p, enum ca_argument gradient)
{
    const size_t *stride = p->bias_layout.stride;

    switch (gradient) {
    case CA_DQ:
        return p->seq_kv;
    case CA_DK:
    case CA_DV:
        return p->seq_q * (p->heads / p->kv_heads);
    case CA_DBIAS:
        return (stride[0] ? 1 : p->batch) * (stride[1] ? 1 : p->heads) *
               (stride[2] ? 1 : p->seq_q) * (stride[3] ? 1 : p->seq_kv);
    case CA_DSLOPES:
        return p->batch * p->seq_q * p->seq_kv;
    default:
        return p->batch * p->seq_q;
    }
}

static void finish(const clattn_problem *p, enum ca_argument gradient, const struct sums *s,
                   size_t count)
{
    const double rounding = 2.0 * ca_trust_length_error(most_terms(p, gradient));
    const double factor = gradient == CA_DQ || gradient == CA_DK ? (double)p->scale : 1.0;
    const clattn_dtype dtype = ca_problem_dtype(p, gradient);

    for (size_t n = 0; n < count; n++) {
        struct ca_bounded *x = &s->sum[n];
        x->value *= factor;
        x->bound = fabs(factor) * (x->bound + rounding * s->terms[n]) + FLT_MIN;
        x->bound += ca_value_rounding(dtype, fabs(x->value) + x->bound);
    }
}

static int allocate(struct ca_all_gradients *g, struct sweep *s, const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    int complete = 1;

    ca_problem_tensors(p, tensors);
    for (int n = 0; n < CA_NUM_GRADIENTS; n++) {
        struct ca_tensor *t = &g->tensor[n];
        *t = tensors[CA_DQ + n];
        if (!t->present)
            continue;
        g->count[n] = t->sizes[0] * t->sizes[1] * t->sizes[2] * t->sizes[3];
        g->of[n] = calloc(g->count[n] + 1, sizeof *g->of[n]);
        s->of[n].sum = g->of[n];
        s->of[n].terms = calloc(g->count[n] + 1, sizeof *s->of[n].terms);
        memcpy(s->of[n].size, t->sizes, sizeof t->sizes);
        complete = complete && g->of[n] && s->of[n].terms;
    }
    s->key = malloc(p->dim_qk * sizeof *s->key);
    return ca_pair_row_open(p, &s->row) && complete && s->key;
}

void ca_all_gradients_free(struct ca_all_gradients *g)
{
    for (int n = 0; n < CA_NUM_GRADIENTS; n++)
        free(g->of[n]);
    memset(g, 0, sizeof *g);
}

int ca_all_gradients_solve(struct ca_all_gradients *g, const struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    struct sweep s = {.c = c};
    struct ca_pair pair;

    memset(g, 0, sizeof *g);
    const int complete = allocate(g, &s, p);
    for (size_t index = 0; complete && index < p->batch * p->heads * p->seq_q; index++) {
        ca_pair_row_locate(c, index, &s.row);
        for (size_t j = 0; j < p->seq_kv; j++)
            if (ca_pair_look(c, &s.row, j, &pair))
                add_pair(&s, j, &pair);
        add_sink(&s);
    }
    for (int n = 0; complete && n < CA_NUM_GRADIENTS; n++)
        finish(p, (enum ca_argument)(CA_DQ + n), &s.of[n], g->count[n]);
    for (int n = 0; n < CA_NUM_GRADIENTS; n++)
        free(s.of[n].terms);
    ca_pair_row_close(&s.row);
    free(s.key);
    return complete;
}
