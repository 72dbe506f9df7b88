/* SPDX-License-Identifier: Apache-2.0 */
/* The bound: errors are carried along at their worst. u = 2^-24 is the error of one f32 operation,
 * relative to its result; a sum of n terms is off by n u of their magnitudes, an exponential by 8 u and
 * by the error of its argument. */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

/* ---- arithmetic ------------------------------------------------------------------------------- */

static struct bounded rounded(double value, double bound)
{
    return (struct bounded){value, bound + U * (fabs(value) + bound) + 0x1p-126};
}

static struct bounded plus(struct bounded a, struct bounded b)
{
    return rounded(a.value + b.value, a.bound + b.bound);
}

static struct bounded minus(struct bounded a, struct bounded b)
{
    return rounded(a.value - b.value, a.bound + b.bound);
}

static struct bounded times(struct bounded a, struct bounded b)
{
    return rounded(a.value * b.value,
                   fabs(a.value) * b.bound + fabs(b.value) * a.bound + a.bound * b.bound);
}

/* A sum in some order: its terms, their errors and their magnitudes. */
struct sum {
    double value, bound, magnitude;
    size_t terms;
};

static void add(struct sum *sum, struct bounded x)
{
    sum->value += x.value;
    sum->bound += x.bound;
    sum->magnitude += fabs(x.value) + x.bound;
    sum->terms++;
}

static struct bounded total(const struct sum *sum)
{
    return rounded(sum->value, sum->bound + (double)(sum->terms + 8) * U * sum->magnitude);
}

/* ---- rows ------------------------------------------------------------------------------------- */

struct walk {
    const clattn_double_backward_problem *p;
    const struct tensor_view *view;
    struct tensor_shape shape[NUM_DOUBLE_BACKWARD_TENSORS];
    double scale;
    size_t b, h, queries, keys;
    int64_t diagonal;
    struct bounded *score, *weight, *gradient, *tangent, *cross; /* of a query's keys */
    bool *seen;
    struct bounded r, d, c; /* of the query */
    struct bounded *out;
};

static size_t length(const struct walk *w, int id, int has, size_t most)
{
    int32_t number;

    if (!has)
        return most;
    memcpy(&number, w->view->at[id] + w->b * sizeof number, sizeof number);
    return number < 0 ? 0 : (size_t)number > most ? most : (size_t)number;
}

static void enter(struct walk *w, size_t b, size_t h)
{
    const clattn_double_backward_problem *p = w->p;

    w->b = b;
    w->h = h;
    w->queries = length(w, DOUBLE_BACKWARD_Q_LENGTHS, p->q_lengths, p->seq_q);
    w->keys = length(w, DOUBLE_BACKWARD_KV_LENGTHS, p->kv_lengths, p->seq_kv);
    w->diagonal = p->diagonal == CLATTN_TOP_LEFT       ? 0
                  : p->diagonal == CLATTN_BOTTOM_RIGHT ? (int64_t)w->keys - (int64_t)w->queries
                                                       : p->diagonal_offset;
}

static bool sees(const struct walk *w, size_t i, size_t j)
{
    const int64_t distance = (int64_t)j - (int64_t)i - w->diagonal;

    return i < w->queries && j < w->keys && !(w->p->causal && distance > 0) &&
           !(w->p->window_left >= 0 && distance < -w->p->window_left) &&
           !(w->p->window_right >= 0 && distance > w->p->window_right);
}

/* An element of a row of a query, or of a key of the head's kv head; 0 of a tensor that is not given. */
static double element(const struct walk *w, int id, size_t row, size_t d)
{
    const struct tensor_shape *s = &w->shape[id];
    const size_t head = w->h * s->size[1] / w->p->heads;

    return s->present ? value_get(s->dtype, w->view->at[id], tensor_index(s, w->b, head, row, d))
                      : 0.0;
}

/* The product of a query's row with a key's. */
static void add_product(const struct walk *w, struct sum *sum, int of_query, size_t i, int of_key,
                        size_t j)
{
    if (!w->shape[of_query].present || !w->shape[of_key].present)
        return;
    for (size_t d = 0; d < w->shape[of_query].size[3]; d++)
        add(sum, bounded_exactly(element(w, of_query, i, d) * element(w, of_key, j, d)));
}

static struct bounded scaled(const struct walk *w, struct bounded x)
{
    return times(x, (struct bounded){w->scale, U * fabs(w->scale)});
}

/* The numbers of query i and of its pairs. */
static void look(struct walk *w, size_t i)
{
    const clattn_double_backward_problem *p = w->p;
    struct sum all = {0}, r = {0}, d = {0}, c = {0}, shifted = {0};
    double most = -HUGE_VAL, widest_t = 0.0, widest_d = 0.0;

    for (size_t j = 0; j < p->seq_kv; j++) {
        struct sum s = {0}, t = {0}, g = {0}, u = {0};
        w->seen[j] = sees(w, i, j);
        if (!w->seen[j])
            continue;
        add_product(w, &s, DOUBLE_BACKWARD_Q, i, DOUBLE_BACKWARD_K, j);
        add_product(w, &t, DOUBLE_BACKWARD_GGQ, i, DOUBLE_BACKWARD_K, j);
        add_product(w, &t, DOUBLE_BACKWARD_Q, i, DOUBLE_BACKWARD_GGK, j);
        add_product(w, &g, DOUBLE_BACKWARD_DO, i, DOUBLE_BACKWARD_V, j);
        add_product(w, &u, DOUBLE_BACKWARD_DO, i, DOUBLE_BACKWARD_GGV, j);
        w->score[j] = scaled(w, total(&s));
        w->tangent[j] = scaled(w, total(&t));
        w->gradient[j] = total(&g);
        w->cross[j] = total(&u);
        most = fmax(most, w->score[j].value);
        widest_t = fmax(widest_t, fabs(w->tangent[j].value) + w->tangent[j].bound);
        widest_d = fmax(widest_d, fabs(w->gradient[j].value) + w->gradient[j].bound);
    }
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!w->seen[j])
            continue;
        const double apart = most - w->score[j].value, x = exp(-apart);
        const double error = expm1(w->score[j].bound + (8.0 + 3.0 * apart) * U);
        add(&all, w->weight[j] = (struct bounded){x, x * error + 0x1p-126});
    }
    const struct bounded sum = total(&all);
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!w->seen[j])
            continue;
        const double x = w->weight[j].value / sum.value;
        w->weight[j] = rounded(x, x * 1.01 *
                                      (w->weight[j].bound / fmax(w->weight[j].value, 0x1p-126) +
                                       sum.bound / sum.value + 4.0 * U));
        if (!(w->weight[j].bound <= 1.0)) /* a weight below f32's */
            w->weight[j].bound = 0x1p-120;
        add(&r, times(w->weight[j], w->tangent[j]));
        add(&d, times(w->weight[j], w->gradient[j]));
    }
    w->r = total(&r);
    w->d = total(&d);
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!w->seen[j])
            continue;
        const struct bounded t = minus(w->tangent[j], w->r), g = minus(w->gradient[j], w->d);
        add(&c, times(w->weight[j], plus(w->cross[j], times(t, g))));
        /* The covariance may be formed of t and dP less those of any visible pair. */
        add(&shifted, bounded_exactly(w->weight[j].value * 4.0 *
                                      (fabs(w->tangent[j].value - w->r.value) + widest_t) *
                                      (fabs(w->gradient[j].value - w->d.value) + widest_d)));
    }
    w->c = total(&c);
    w->c.bound += (double)(shifted.terms + 16) * U * shifted.magnitude;
}

/* gS, dS and gP' of a pair that was looked at. */
struct pair {
    struct bounded gs, ds, gp;
};

static struct pair pair_of(const struct walk *w, size_t j)
{
    const struct bounded t = minus(w->tangent[j], w->r), g = minus(w->gradient[j], w->d);
    const struct bounded x = minus(plus(w->cross[j], times(t, g)), w->c);

    return (struct pair){scaled(w, times(w->weight[j], x)), scaled(w, times(w->weight[j], g)),
                         times(w->weight[j], t)};
}

static void add_row(const struct walk *w, struct sum *sums, struct bounded weight, int id,
                    size_t row)
{
    for (size_t d = 0; w->shape[id].present && d < w->shape[id].size[3]; d++)
        add(&sums[d], times(weight, bounded_exactly(element(w, id, row, d))));
}

static void hand_out(struct walk *w, int id, size_t head, size_t row, struct sum *sums,
                     judge_visit *visit, void *user)
{
    const struct tensor_shape *s = &w->shape[id];

    for (size_t d = 0; d < s->size[3]; d++)
        w->out[d] =
            bounded_stored(s->dtype, sums[d].terms > 0 ? total(&sums[d]) : bounded_exactly(0.0));
    visit(user, id, (size_t[]){w->b, head, row, 0}, w->out, s->size[3]);
}

static void judge_query(struct walk *w, size_t i, struct sum *gq, struct sum *gdo,
                        judge_visit *visit, void *user)
{
    memset(gq, 0, w->p->dim_qk * sizeof *gq);
    memset(gdo, 0, w->p->dim_v * sizeof *gdo);
    look(w, i);
    for (size_t j = 0; j < w->p->seq_kv; j++) {
        if (!w->seen[j])
            continue;
        const struct pair pair = pair_of(w, j);
        add_row(w, gq, pair.gs, DOUBLE_BACKWARD_K, j);
        add_row(w, gq, pair.ds, DOUBLE_BACKWARD_GGK, j);
        add_row(w, gdo, w->weight[j], DOUBLE_BACKWARD_GGV, j);
        add_row(w, gdo, pair.gp, DOUBLE_BACKWARD_V, j);
    }
    hand_out(w, DOUBLE_BACKWARD_GQ, w->h, i, gq, visit, user);
    hand_out(w, DOUBLE_BACKWARD_GDO, w->h, i, gdo, visit, user);
}

/* All keys of a kv head, of which sums are kept together. */
static void judge_keys(struct walk *w, size_t b, size_t kv_head, struct sum *sums,
                       judge_visit *visit, void *user)
{
    const clattn_double_backward_problem *p = w->p;
    const size_t group = p->heads / p->kv_heads, dims = p->dim_qk + p->dim_v;

    memset(sums, 0, p->seq_kv * dims * sizeof *sums);
    for (size_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
        enter(w, b, h);
        for (size_t i = 0; i < p->seq_q; i++) {
            look(w, i);
            for (size_t j = 0; j < p->seq_kv; j++) {
                if (!w->seen[j])
                    continue;
                const struct pair pair = pair_of(w, j);
                add_row(w, sums + j * dims, pair.gs, DOUBLE_BACKWARD_Q, i);
                add_row(w, sums + j * dims, pair.ds, DOUBLE_BACKWARD_GGQ, i);
                add_row(w, sums + j * dims + p->dim_qk, pair.gp, DOUBLE_BACKWARD_DO, i);
            }
        }
    }
    for (size_t j = 0; j < p->seq_kv; j++) {
        hand_out(w, DOUBLE_BACKWARD_GK, kv_head, j, sums + j * dims, visit, user);
        hand_out(w, DOUBLE_BACKWARD_GV, kv_head, j, sums + j * dims + p->dim_qk, visit, user);
    }
}

static bool open_walk(struct walk *w, const clattn_problem *problem)
{
    const size_t keys = w->p->seq_kv + 1;
    struct bounded *all = calloc(5 * keys, sizeof *all);

    for (int id = 0; id < NUM_DOUBLE_BACKWARD_TENSORS; id++)
        w->shape[id] = tensor_shape_of(problem, id);
    w->score = all;
    w->weight = all ? all + keys : NULL;
    w->gradient = all ? all + 2 * keys : NULL;
    w->tangent = all ? all + 3 * keys : NULL;
    w->cross = all ? all + 4 * keys : NULL;
    w->seen = calloc(keys, sizeof *w->seen);
    w->out = calloc(w->p->dim_qk + w->p->dim_v, sizeof *w->out);
    return all && w->seen && w->out;
}

bool judge_double_backward(const clattn_problem *problem, const struct tensor_view *view,
                           enum precision precision, double budget, judge_visit *visit, void *user)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    const size_t dims = p->dim_qk + p->dim_v, heads = p->batch * p->heads;
    const size_t all = heads * p->seq_q, kv_heads = p->batch * p->kv_heads;
    const double row = (double)(p->seq_kv + 1) * (double)dims * 5.0;
    const double head = row * (double)(p->seq_q + 1) * (double)(p->heads / p->kv_heads);
    const size_t rows = judge_affordable(budget, all, row, 16);
    const size_t key_heads = judge_affordable(budget, kv_heads, head, 1);
    struct walk w = {.p = p,
                     .view = view,
                     .scale = isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : (double)p->scale};
    struct sum *sums = calloc((p->seq_kv + 1) * dims, sizeof *sums);
    const bool ok = open_walk(&w, problem) && sums != NULL;

    (void)precision;
    w.scale = (double)(float)w.scale;
    for (size_t n = 0; ok && n < rows; n++) {
        const size_t index = judge_spread(n, rows, all);
        enter(&w, index / p->seq_q / p->heads, index / p->seq_q % p->heads);
        judge_query(&w, index % p->seq_q, sums, sums + p->dim_qk, visit, user);
    }
    for (size_t n = 0; ok && n < key_heads; n++) {
        const size_t index = key_heads == 1 ? 0 : judge_spread(n, key_heads, kv_heads);
        judge_keys(&w, index / p->kv_heads, index % p->kv_heads, sums, visit, user);
    }
    free(w.score);
    free(w.seen);
    free(w.out);
    free(sums);
    return ok;
}
