/* The bounds, in the terms of reference.c: u = 2^-24, first order, FLT_MIN for what may be flushed
 * to 0 or underflow.
 *
 * Score       e_j as in the forward direction.
 * p           exp(s - lse) with lse as given. A kernel may start the sum of a score at -lse, so
 *             that every one of its additions rounds a number of that size; with the difference,
 *             its product with log2(e) and exp,
 *             slack = expm1(e_j + (dim_qk + 6) u |lse| + (8 + 3 |s - lse| + 2 |s|) u).
 *             Dropout multiplies by 1 / (1 - r): 3 u more in p' and in w dp.
 * g = w dp - delta, where dp = sum do v and delta = sum do o are products of dim_v terms, and the
 *             sum of dp may start at -delta:
 *             (dim_v + 6) u (w sum|do v| + sum|do o| + |delta|) + 4 u (w |dp| + |delta|).
 * ds = p g    |g| times p's error, p times g's, and 2 u |ds|.
 * Softcap     x = s / cap is off by e_x = e / cap + 4 u |x|, by which 1 - tanh^2(x) changes by a
 *             factor of at most exp(2 e_x); tanh itself (10 u) and the difference add 34 u.
 * Sums        n terms in any order, some of them in partial sums: (n + 16) u sum|terms|, besides
 *             what the terms are off by; then the factor scale and half an ulp of the dtype.
 * dsink       exp(sink - lse), relative: (8 + 3 |sink - lse| + 2 |sink| + 2 |lse|) u.
 *
 * An element that no pair adds to is 0, exactly. */
#include "tests/reference/reference_backward.h"

#include "tests/reference/reference_dropout.h"
#include "tests/support/storage.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = 0x1p-24;

/* One element while it is summed. */
struct sum {
    double value, error, magnitude;
    size_t terms;
};

/* Inputs as packed doubles, and the sums of each tensor that is written. */
struct work {
    const clattn_problem *p;
    const struct tensor_view *view;
    struct tensor_shape shape[NUM_TENSORS];
    double *input[NUM_TENSORS];
    struct sum *sums[NUM_TENSORS];
    double scale;
};

static size_t count_of(const struct tensor_shape *s)
{
    return s->size[0] * s->size[1] * s->size[2] * s->size[3];
}

/* Where an element lies in a packed array; where the tensor has one element for all, at that. */
static size_t packed(const struct tensor_shape *s, const size_t b, const size_t h, const size_t i,
                     const size_t d)
{
    const size_t at[4] = {b, h, i, d};
    size_t index = 0;

    for (int n = 0; n < 4; n++)
        index = index * s->size[n] + (s->size[n] == 1 ? 0 : at[n]);
    return index;
}

static double *unpack(const struct tensor_shape *s, const unsigned char *base)
{
    double *values = malloc((count_of(s) + 1) * sizeof *values);
    size_t n = 0;

    if (!values || !s->present)
        return values;
    for (size_t b = 0; b < s->size[0]; b++)
        for (size_t h = 0; h < s->size[1]; h++)
            for (size_t i = 0; i < s->size[2]; i++)
                for (size_t d = 0; d < s->size[3]; d++)
                    values[n++] = value_get(s->dtype, base, tensor_index(s, b, h, i, d));
    return values;
}

static void close_work(struct work *w)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        free(w->input[id]);
        free(w->sums[id]);
    }
}

static int open_work(const clattn_problem *p, const struct tensor_view *view, struct work *w)
{
    int complete = 1;

    *w = (struct work){.p = p, .view = view, .scale = p->scale};
    if (isnan(p->scale))
        w->scale = 1.0 / sqrt((double)p->dim_qk);
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct tensor_shape *s = &w->shape[id];
        *s = tensor_shape_of(p, (enum tensor_id)id);
        if (s->written)
            w->sums[id] = calloc(s->present ? count_of(s) : 1, sizeof(struct sum));
        else if (id != TENSOR_MASK && id != TENSOR_Q_LENGTHS && id != TENSOR_KV_LENGTHS)
            w->input[id] = unpack(s, view->at[id]);
        else
            continue;
        complete = complete && (w->sums[id] || w->input[id]);
    }
    return complete;
}

/* ---- pairs --------------------------------------------------------------------------------- */

struct pair {
    size_t b, h, kv_head, i, j;
    const double *q, *k, *v, *o, *d_o; /* their rows */
    double lse;
    struct bounded delta;
};

static const double *row(const struct work *w, const enum tensor_id id, const size_t b,
                         const size_t h, const size_t i)
{
    return w->input[id] + packed(&w->shape[id], b, h, i, 0);
}

/* The product of two vectors of n elements and the sum of its terms' magnitudes. */
static double dot(const double *x, const double *y, const size_t n, double *magnitude)
{
    double sum = 0.0;

    *magnitude = 0.0;
    for (size_t d = 0; d < n; d++) {
        sum += x[d] * y[d];
        *magnitude += fabs(x[d] * y[d]);
    }
    return sum;
}

/* The final score; slope receives softcap's derivative. */
static struct bounded score(const struct work *w, const struct pair *at, struct bounded *slope)
{
    const clattn_problem *p = w->p;
    double magnitude, bias = 0.0, alibi = 0.0;
    struct bounded s = {w->scale * dot(at->q, at->k, p->dim_qk, &magnitude), 0.0};

    s.bound = (double)(p->dim_qk + 6) *
              (u * fabs(w->scale) * magnitude + FLT_MIN * fmax(1.0, fabs(w->scale)));
    *slope = (struct bounded){1.0, 0.0};
    if (p->softcap > 0.0f) {
        const double x = s.value / p->softcap, t = tanh(x);
        slope->value = 1.0 - t * t;
        slope->bound = slope->value * expm1(2 * s.bound / p->softcap + 8 * u * fabs(x)) + 34 * u;
        s.value = p->softcap * t;
        s.bound += 16 * u * fabs(s.value);
    }
    if (p->bias)
        bias = w->input[TENSOR_BIAS][packed(&w->shape[TENSOR_BIAS], at->b, at->h, at->i, at->j)];
    if (p->alibi)
        alibi =
            w->input[TENSOR_SLOPES][at->h] * reference_distance(p, w->view, at->b, at->i, at->j);
    if (p->bias || p->alibi)
        s.bound += 4 * u * (fabs(s.value) + fabs(bias) + fabs(alibi));
    s.value += bias + alibi;
    return s;
}

/* to[d] += weight * x[d]. */
static void add(struct sum *to, const struct bounded weight, const double *x, const size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        to[d].value += weight.value * x[d];
        to[d].error += weight.bound * fabs(x[d]);
        to[d].magnitude += fabs(weight.value * x[d]);
        to[d].terms++;
    }
}

static struct sum *sum_at(const struct work *w, const enum tensor_id id, const size_t b,
                          const size_t h, const size_t i, const size_t d)
{
    return w->sums[id] + packed(&w->shape[id], b, h, i, d);
}

/* What one visible pair adds to every gradient. */
static void add_pair(const struct work *w, const struct pair *at)
{
    const clattn_problem *p = w->p;
    const double factor = reference_dropout_factor(p, w->view, at->b, at->h, at->i, at->j);
    const double rounding = p->dropout > 0.0f ? 3 * u : 0.0, one = 1.0;
    double magnitude;
    struct bounded slope, weight, dropped, g, ds, dt;

    const struct bounded s = score(w, at, &slope);
    const double distance = s.value - at->lse;
    weight.value = exp(distance);
    weight.bound = weight.value * expm1(s.bound + (double)(p->dim_qk + 6) * u * fabs(at->lse) +
                                        (8 + 3 * fabs(distance) + 2 * fabs(s.value)) * u) +
                   2 * FLT_MIN;
    dropped.value = factor * weight.value;
    dropped.bound = factor * (weight.bound + rounding * weight.value);

    const double dp = factor * dot(at->d_o, at->v, p->dim_v, &magnitude);
    g.value = dp - at->delta.value;
    g.bound =
        (double)(p->dim_v + 6) * (factor * (u * magnitude + FLT_MIN) + u * fabs(at->delta.value)) +
        at->delta.bound + rounding * fabs(dp) + 4 * u * (fabs(dp) + fabs(at->delta.value));
    ds.value = weight.value * g.value;
    ds.bound = weight.bound * fabs(g.value) + (weight.value + weight.bound) * g.bound +
               2 * u * fabs(ds.value) + FLT_MIN;
    dt.value = ds.value * slope.value;
    dt.bound = ds.bound * (slope.value + slope.bound) + fabs(ds.value) * slope.bound +
               2 * u * fabs(dt.value) + FLT_MIN;

    add(sum_at(w, TENSOR_DV, at->b, at->kv_head, at->j, 0), dropped, at->d_o, p->dim_v);
    add(sum_at(w, TENSOR_DQ, at->b, at->h, at->i, 0), dt, at->k, p->dim_qk);
    add(sum_at(w, TENSOR_DK, at->b, at->kv_head, at->j, 0), dt, at->q, p->dim_qk);
    if (p->dbias)
        add(sum_at(w, TENSOR_DBIAS, at->b, at->h, at->i, at->j), ds, &one, 1);
    if (p->dslopes) {
        const double steps = reference_distance(p, w->view, at->b, at->i, at->j);
        add(&w->sums[TENSOR_DSLOPES][at->h], ds, &steps, 1);
    }
}

/* The share of a row that sees something in the gradient of its head's sink. */
static void add_sink(const struct work *w, const struct pair *at)
{
    const double sink = w->input[TENSOR_SINKS][at->h], distance = sink - at->lse;
    const double minus_one = -1.0, weight = exp(distance);
    const double slack = expm1((8 + 3 * fabs(distance) + 2 * fabs(sink) + 2 * fabs(at->lse)) * u);
    const struct bounded share = {weight * at->delta.value,
                                  weight * (1 + slack) * at->delta.bound +
                                      (weight * slack + 2 * FLT_MIN) * fabs(at->delta.value)};

    add(&w->sums[TENSOR_DSINKS][at->h], share, &minus_one, 1);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void add_row(const struct work *w, const size_t b, const size_t h, const size_t i)
{
    const clattn_problem *p = w->p;
    double magnitude;
    int sees_any = 0;
    struct pair at = {.b = b, .h = h, .i = i, .kv_head = h / (p->heads / p->kv_heads)};

    at.q = row(w, TENSOR_Q, b, h, i);
    at.o = row(w, TENSOR_O, b, h, i);
    at.d_o = row(w, TENSOR_DO, b, h, i);
    at.lse = w->input[TENSOR_LSE][(b * p->heads + h) * p->seq_q + i];
    if (at.lse == -INFINITY) /* it sees nothing, or nothing but scores of -Inf: no weights */
        return;
    at.delta.value = dot(at.d_o, at.o, p->dim_v, &magnitude);
    at.delta.bound = (double)(p->dim_v + 6) * (u * magnitude + FLT_MIN);
    for (at.j = 0; at.j < p->seq_kv; at.j++) {
        if (!reference_sees(p, w->view, b, h, i, at.j))
            continue;
        at.k = row(w, TENSOR_K, b, at.kv_head, at.j);
        at.v = row(w, TENSOR_V, b, at.kv_head, at.j);
        add_pair(w, &at);
        sees_any = 1;
    }
    if (p->dsinks && sees_any)
        add_sink(w, &at);
}

static struct bounded *finish(const struct work *w, const enum tensor_id id)
{
    const struct tensor_shape *s = &w->shape[id];
    const double factor = id == TENSOR_DQ || id == TENSOR_DK ? w->scale : 1.0;
    const size_t count = s->present ? count_of(s) : 0;
    struct bounded *results = malloc((count + 1) * sizeof *results);

    for (size_t n = 0; results && n < count; n++) {
        const struct sum *x = &w->sums[id][n];
        const double error =
            fabs(factor) * (x->error + (double)(x->terms + 16) * (u * x->magnitude + FLT_MIN)) +
            FLT_MIN;
        results[n].value = factor * x->value;
        results[n].bound = x->terms == 0
                               ? 0.0
                               : error + storage_rounding(s->dtype, fabs(results[n].value) + error);
    }
    return results;
}

int reference_gradients_open(const clattn_problem *p, const struct tensor_view *view,
                             struct reference_gradients *gradients)
{
    struct work w;
    int complete = open_work(p, view, &w);

    *gradients = (struct reference_gradients){{NULL}};
    for (size_t b = 0; complete && b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++)
                add_row(&w, b, h, i);
    for (int id = 0; complete && id < NUM_TENSORS; id++)
        if (w.shape[id].written) {
            gradients->at[id] = finish(&w, (enum tensor_id)id);
            complete = complete && gradients->at[id];
        }
    close_work(&w);
    return complete;
}

void reference_gradients_close(struct reference_gradients *gradients)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        free(gradients->at[id]);
}
