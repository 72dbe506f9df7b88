/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of double backward: queries are counted (b, h, i), keys (b, kv_head, j). The bound of an element's error is some
 * roundings of the sum of its terms' magnitudes. */
#include "base/sizes.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ---------------------------------------------------------------------------------- */

/* An element of an answer. Its bound is a share of the magnitude. */
struct part {
    double value, magnitude;
};

/* A query: the numbers of its pairs, and their means over the row. */
struct query {
    size_t b, h, i, queries, keys;
    int64_t diagonal;
    double *p, *t, *g, *u; /* weights, tangents, gradients and cross products, one for each key */
    double mean_t, mean_g, mean_all;
    double share;   /* the relative error of a weight */
    double wide[3]; /* the largest magnitudes of t, g and u */
    double *x, *y;  /* rows */
};

static size_t length(const struct ca_trust_case *c, unsigned argument, size_t b, size_t most)
{
    if (!c->bytes[argument])
        return most;
    const cl_int number = ca_trust_number(c, argument, b);
    return number < 0 ? 0 : ca_smaller((size_t)number, most);
}

static int sees(const clattn_double_backward_problem *p, const struct query *q, size_t j)
{
    const int64_t to = (int64_t)j - (int64_t)q->i - q->diagonal;

    return q->i < q->queries && j < q->keys &&
           (p->window_left == CLATTN_UNLIMITED || to >= -p->window_left) &&
           (p->window_right == CLATTN_UNLIMITED || to <= p->window_right);
}

/* Loads a row; zeros of a tensor that is not given. */
static void load(const struct ca_trust_case *c, unsigned argument, const clattn_layout *layout,
                 size_t b, size_t h, size_t row, size_t dim, double *to)
{
    if (c->bytes[argument])
        ca_values_load(ca_trust_elements(c, argument), c->problem.double_backward.dtype,
                       ca_trust_position(layout, b, h, row, 0), layout->stride[3], dim, to);
    else
        memset(to, 0, dim * sizeof *to);
}

static double product(const double *x, const double *y, size_t dim, double *magnitude)
{
    double sum = 0.0;

    for (size_t d = 0; d < dim; d++) {
        sum += x[d] * y[d];
        *magnitude += fabs(x[d] * y[d]);
    }
    return sum;
}

/* The four products of the query with key j. */
static void multiply(const struct ca_trust_case *c, struct query *q, size_t j, double *widest)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const size_t kv_head = q->h / (p->heads / p->kv_heads);
    double scores = 0.0, t = 0.0, g = 0.0, u = 0.0;

    load(c, CA_DOUBLE_BACKWARD_Q, &p->q, q->b, q->h, q->i, p->dim_qk, q->x);
    load(c, CA_DOUBLE_BACKWARD_K, &p->k, q->b, kv_head, j, p->dim_qk, q->y);
    q->p[j] = p->scale * product(q->x, q->y, p->dim_qk, &scores);
    load(c, CA_DOUBLE_BACKWARD_GGK, &p->ggk, q->b, kv_head, j, p->dim_qk, q->y);
    q->t[j] = product(q->x, q->y, p->dim_qk, &t);
    load(c, CA_DOUBLE_BACKWARD_GGQ, &p->ggq, q->b, q->h, q->i, p->dim_qk, q->x);
    load(c, CA_DOUBLE_BACKWARD_K, &p->k, q->b, kv_head, j, p->dim_qk, q->y);
    q->t[j] = p->scale * (q->t[j] + product(q->x, q->y, p->dim_qk, &t));
    load(c, CA_DOUBLE_BACKWARD_DO, &p->d_o, q->b, q->h, q->i, p->dim_v, q->x);
    load(c, CA_DOUBLE_BACKWARD_V, &p->v, q->b, kv_head, j, p->dim_v, q->y);
    q->g[j] = product(q->x, q->y, p->dim_v, &g);
    load(c, CA_DOUBLE_BACKWARD_GGV, &p->ggv, q->b, kv_head, j, p->dim_v, q->y);
    q->u[j] = product(q->x, q->y, p->dim_v, &u);
    *widest = fmax(*widest, fabs((double)p->scale) * scores);
    q->wide[0] = fmax(q->wide[0], fabs((double)p->scale) * t);
    q->wide[1] = fmax(q->wide[1], g);
    q->wide[2] = fmax(q->wide[2], u);
}

static void look(const struct ca_trust_case *c, size_t index, struct query *q)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    double sum = 0.0, most = -INFINITY, widest = 0.0;

    q->i = index % p->seq_q;
    q->h = index / p->seq_q % p->heads;
    q->b = index / p->seq_q / p->heads;
    q->queries = length(c, CA_DOUBLE_BACKWARD_Q_LENGTHS, q->b, p->seq_q);
    q->keys = length(c, CA_DOUBLE_BACKWARD_KV_LENGTHS, q->b, p->seq_kv);
    q->diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT
                      ? (int64_t)q->keys - (int64_t)q->queries
                      : ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv);
    q->mean_t = q->mean_g = q->mean_all = 0.0;
    memset(q->wide, 0, sizeof q->wide);
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!sees(p, q, j))
            continue;
        multiply(c, q, j, &widest);
        most = fmax(most, q->p[j]);
    }
    for (size_t j = 0; j < p->seq_kv; j++)
        sum += sees(p, q, j) ? q->p[j] = exp(q->p[j] - most) : 0.0;
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!sees(p, q, j))
            continue;
        q->p[j] /= sum;
        q->mean_t += q->p[j] * q->t[j];
        q->mean_g += q->p[j] * q->g[j];
    }
    for (size_t j = 0; j < p->seq_kv; j++)
        if (sees(p, q, j))
            q->mean_all += q->p[j] * (q->u[j] + (q->t[j] - q->mean_t) * (q->g[j] - q->mean_g));
    q->share = (4.0 * (widest + 8.0) * (double)(p->dim_qk + p->dim_v + 16) +
                4.0 * (double)(p->seq_kv + 16)) *
               CA_TRUST_ROUNDOFF;
}

/* Adds a row times gS, dS, P or gP' of a pair. */
static void add_row(const struct query *q, double weight, double magnitude, const double *row,
                    size_t dim, struct part *to)
{
    for (size_t d = 0; d < dim; d++) {
        to[d].value += weight * row[d];
        to[d].magnitude += q->share * magnitude * fabs(row[d]);
    }
}

/* Adds a pair's terms to the results of its query, or of its key. */
static void add_pair(const struct ca_trust_case *c, struct query *q, size_t j, int of_key,
                     struct part *to)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const size_t kv_head = q->h / (p->heads / p->kv_heads), row = of_key ? q->i : j;
    const size_t h = of_key ? q->h : kv_head;
    const double t = q->t[j] - q->mean_t, g = q->g[j] - q->mean_g, scale = (double)p->scale;
    const double all = q->wide[2] + 4.0 * q->wide[0] * q->wide[1];

    load(c, of_key ? CA_DOUBLE_BACKWARD_Q : CA_DOUBLE_BACKWARD_K, of_key ? &p->q : &p->k, q->b, h,
         row, p->dim_qk, q->x);
    add_row(q, scale * q->p[j] * (q->u[j] + t * g - q->mean_all), fabs(scale) * q->p[j] * 4.0 * all,
            q->x, p->dim_qk, to);
    load(c, of_key ? CA_DOUBLE_BACKWARD_GGQ : CA_DOUBLE_BACKWARD_GGK, of_key ? &p->ggq : &p->ggk,
         q->b, h, row, p->dim_qk, q->x);
    add_row(q, scale * q->p[j] * g, fabs(scale) * q->p[j] * 4.0 * q->wide[1], q->x, p->dim_qk, to);
    load(c, of_key ? CA_DOUBLE_BACKWARD_DO : CA_DOUBLE_BACKWARD_V, of_key ? &p->d_o : &p->v, q->b,
         h, row, p->dim_v, q->x);
    add_row(q, q->p[j] * t, q->p[j] * 4.0 * q->wide[0], q->x, p->dim_v, to + p->dim_qk);
    if (of_key)
        return;
    load(c, CA_DOUBLE_BACKWARD_GGV, &p->ggv, q->b, h, row, p->dim_v, q->x);
    add_row(q, q->p[j], q->p[j], q->x, p->dim_v, to + p->dim_qk);
}

static void answer(struct ca_trust_case *c, unsigned argument, size_t b, size_t h, size_t s,
                   size_t dim, const struct part *parts)
{
    struct ca_bounded *want = ca_trust_answer(c, argument, b, h, s, dim);

    for (size_t d = 0; d < dim; d++) {
        want[d] = (struct ca_bounded){parts[d].value, parts[d].magnitude + FLT_MIN};
        want[d].bound += ca_value_rounding(c->problem.double_backward.dtype,
                                           fabs(want[d].value) + want[d].bound);
    }
}

static void solve_query(struct ca_trust_case *c, struct query *q, struct part *parts)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;

    memset(parts, 0, (p->dim_qk + p->dim_v) * sizeof *parts);
    for (size_t j = 0; j < p->seq_kv; j++)
        if (sees(p, q, j))
            add_pair(c, q, j, 0, parts);
    answer(c, CA_DOUBLE_BACKWARD_GQ, q->b, q->h, q->i, p->dim_qk, parts);
    answer(c, CA_DOUBLE_BACKWARD_GDO, q->b, q->h, q->i, p->dim_v, parts + p->dim_qk);
}

/* Computes gk and gv of a kv head. */
static void solve_keys(struct ca_trust_case *c, size_t b, size_t kv_head, struct query *q,
                       struct part *parts)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const size_t group = p->heads / p->kv_heads, dims = p->dim_qk + p->dim_v;

    memset(parts, 0, p->seq_kv * dims * sizeof *parts);
    for (size_t n = 0; n < group * p->seq_q; n++) {
        look(c, (b * p->heads + kv_head * group) * p->seq_q + n, q);
        for (size_t j = 0; j < p->seq_kv; j++)
            if (sees(p, q, j))
                add_pair(c, q, j, 1, parts + j * dims);
    }
    for (size_t j = 0; j < p->seq_kv; j++) {
        answer(c, CA_DOUBLE_BACKWARD_GK, b, kv_head, j, p->dim_qk, parts + j * dims);
        answer(c, CA_DOUBLE_BACKWARD_GV, b, kv_head, j, p->dim_v, parts + j * dims + p->dim_qk);
    }
}

static int allocate(struct ca_trust_case *c, const struct ca_sample *rows, size_t heads)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const size_t count = rows->count + heads * p->seq_kv;

    return ca_trust_allocate(c, 2 * count, count * (p->dim_qk + p->dim_v));
}

/* Answers for some queries, and for the keys of the first kv heads. */
static int solve(struct ca_trust_case *c, const struct ca_sample *rows, size_t heads)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const size_t longer = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;
    double *numbers = calloc(4 * p->seq_kv + 2 * longer, sizeof *numbers);
    struct part *parts = calloc((p->seq_kv + 1) * (p->dim_qk + p->dim_v), sizeof *parts);
    const int ok = numbers && parts;

    if (ok) {
        struct query q = {.p = numbers,
                          .t = numbers + p->seq_kv,
                          .g = numbers + 2 * p->seq_kv,
                          .u = numbers + 3 * p->seq_kv,
                          .x = numbers + 4 * p->seq_kv,
                          .y = numbers + 4 * p->seq_kv + longer};
        for (size_t n = 0; n < rows->count; n++) {
            look(c, ca_trust_place(rows, n), &q);
            solve_query(c, &q, parts);
        }
        for (size_t n = 0; n < heads; n++)
            solve_keys(c, n / p->kv_heads, n % p->kv_heads, &q, parts);
    }
    free(numbers);
    free(parts);
    return ok;
}

static void fill(struct ca_trust_case *c)
{
    static const unsigned numbers[] = {CA_DOUBLE_BACKWARD_Q,   CA_DOUBLE_BACKWARD_K,
                                       CA_DOUBLE_BACKWARD_V,   CA_DOUBLE_BACKWARD_DO,
                                       CA_DOUBLE_BACKWARD_GGQ, CA_DOUBLE_BACKWARD_GGK,
                                       CA_DOUBLE_BACKWARD_GGV};
    unsigned state = 20240229u;

    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        ca_trust_fill_elements(c, numbers[n], c->problem.double_backward.dtype, -1.0f, 1.0f,
                               &state);
}

static void set_length(struct ca_trust_case *c, unsigned argument, size_t b, size_t number)
{
    const cl_int length = (cl_int)number;

    if (c->bytes[argument])
        memcpy(c->bytes[argument] + CA_TRUST_GUARD + 4 * b, &length, sizeof length);
}

/* ---- the hostile case ------------------------------------------------------------------------- */

/* The case is ragged, strides keep its axes apart, and a batch's last rows are not in use. */
enum { BATCH = 2, GROUP = 2, KV_HEADS = 2, QUERIES = 21, KEYS = 37 };

static clattn_problem shrink(const clattn_problem *real)
{
    clattn_problem made = *real;
    clattn_double_backward_problem *p = &made.double_backward;
    const int grouped = p->heads > p->kv_heads;

    p->batch = BATCH;
    p->kv_heads = KV_HEADS;
    p->heads = grouped ? GROUP * KV_HEADS : KV_HEADS;
    p->seq_q = QUERIES;
    p->seq_kv = KEYS;
    if (p->window_left != CLATTN_UNLIMITED && p->window_left > 9)
        p->window_left = 9;
    if (p->window_right != CLATTN_UNLIMITED && p->window_right > 4)
        p->window_right = 4;
    if (p->diagonal == CLATTN_OFFSET)
        p->diagonal_offset = p->diagonal_offset < -3  ? -3
                             : p->diagonal_offset > 9 ? 9
                                                      : p->diagonal_offset;
    p->q = ca_trust_keep_unit(&p->q, BATCH, p->heads, QUERIES, p->dim_qk);
    p->ggq = ca_trust_keep_unit(&p->ggq, BATCH, p->heads, QUERIES, p->dim_qk);
    p->gq = ca_trust_keep_unit(&p->gq, BATCH, p->heads, QUERIES, p->dim_qk);
    p->d_o = ca_trust_keep_unit(&p->d_o, BATCH, p->heads, QUERIES, p->dim_v);
    p->gdo = ca_trust_keep_unit(&p->gdo, BATCH, p->heads, QUERIES, p->dim_v);
    p->k = ca_trust_keep_unit(&p->k, BATCH, KV_HEADS, KEYS, p->dim_qk);
    p->ggk = ca_trust_keep_unit(&p->ggk, BATCH, KV_HEADS, KEYS, p->dim_qk);
    p->gk = ca_trust_keep_unit(&p->gk, BATCH, KV_HEADS, KEYS, p->dim_qk);
    p->v = ca_trust_keep_unit(&p->v, BATCH, KV_HEADS, KEYS, p->dim_v);
    p->ggv = ca_trust_keep_unit(&p->ggv, BATCH, KV_HEADS, KEYS, p->dim_v);
    p->gv = ca_trust_keep_unit(&p->gv, BATCH, KV_HEADS, KEYS, p->dim_v);
    return made;
}

/* Sets rows from `first` on to NaN, in each head of a batch. */
static void spoil(struct ca_trust_case *c, unsigned argument, const clattn_layout *layout,
                  size_t heads, size_t b, size_t first, size_t rows, size_t dim)
{
    for (size_t n = 0; c->bytes[argument] && n < heads * rows * dim; n++)
        if (n / dim % rows >= first)
            ca_value_store(c->bytes[argument] + CA_TRUST_GUARD, c->problem.double_backward.dtype,
                           ca_trust_position(layout, b, n / dim / rows, n / dim % rows, n % dim),
                           NAN);
}

static void shorten(struct ca_trust_case *c)
{
    const clattn_double_backward_problem *p = &c->problem.double_backward;

    for (size_t b = 0; b < BATCH; b++) {
        const size_t queries = b ? QUERIES - 6 : QUERIES, keys = b ? KEYS : KEYS - 9;
        set_length(c, CA_DOUBLE_BACKWARD_Q_LENGTHS, b, queries);
        set_length(c, CA_DOUBLE_BACKWARD_KV_LENGTHS, b, keys);
        if (p->q_lengths) {
            spoil(c, CA_DOUBLE_BACKWARD_Q, &p->q, p->heads, b, queries, QUERIES, p->dim_qk);
            spoil(c, CA_DOUBLE_BACKWARD_GGQ, &p->ggq, p->heads, b, queries, QUERIES, p->dim_qk);
            spoil(c, CA_DOUBLE_BACKWARD_DO, &p->d_o, p->heads, b, queries, QUERIES, p->dim_v);
        }
        if (p->kv_lengths) {
            spoil(c, CA_DOUBLE_BACKWARD_K, &p->k, p->kv_heads, b, keys, KEYS, p->dim_qk);
            spoil(c, CA_DOUBLE_BACKWARD_GGK, &p->ggk, p->kv_heads, b, keys, KEYS, p->dim_qk);
            spoil(c, CA_DOUBLE_BACKWARD_V, &p->v, p->kv_heads, b, keys, KEYS, p->dim_v);
            spoil(c, CA_DOUBLE_BACKWARD_GGV, &p->ggv, p->kv_heads, b, keys, KEYS, p->dim_v);
        }
    }
}

int ca_double_backward_case_make(struct ca_trust_case *c, clattn_context *ctx,
                                 const clattn_problem *real, const struct ca_candidate *candidate)
{
    (void)ctx;
    (void)candidate;
    c->problem = shrink(real);
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const struct ca_sample all = ca_trust_each(p->batch * p->heads * p->seq_q);
    if (!allocate(c, &all, p->batch * p->kv_heads))
        return 0;
    fill(c);
    shorten(c);
    return solve(c, &all, p->batch * p->kv_heads);
}

/* ---- an ordinary case ------------------------------------------------------------------------- */

/* The gradients of keys and values are checked for one kv head, if its pairs take at most this many multiplications. */
#define MOST_PRODUCTS 0x1p24

int ca_double_backward_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx)
{
    (void)ctx;
    const clattn_double_backward_problem *p = &c->problem.double_backward;
    const size_t dims = p->dim_qk + p->dim_v;
    const struct ca_sample rows =
        ca_trust_spread(p->batch * p->heads * p->seq_q, 8 * p->seq_kv * dims);
    const size_t heads =
        (double)p->seq_q * (double)p->seq_kv * (double)dims * (double)(p->heads / p->kv_heads) <=
                MOST_PRODUCTS
            ? 1
            : 0;

    if (!allocate(c, &rows, heads))
        return 0;
    fill(c);
    for (size_t b = 0; b < p->batch; b++) {
        set_length(c, CA_DOUBLE_BACKWARD_Q_LENGTHS, b, p->seq_q - b % 2 * (p->seq_q / 3));
        set_length(c, CA_DOUBLE_BACKWARD_KV_LENGTHS, b, p->seq_kv - b % 3 * (p->seq_kv / 5));
    }
    return solve(c, &rows, heads);
}
