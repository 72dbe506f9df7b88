/* SPDX-License-Identifier: Apache-2.0 */
/* The layer is computed without rounding errors, and again with the errors of the arithmetic put in at random: once, or
 * of a small layer several times, since a few errors may all be small by chance. A result may be off by ten times the
 * root of the mean square that it differs by: of the element, where it was computed several times, in its row and in the
 * tensor. Errors at their worst, which go through several products, would excuse any result of a large layer. */
#include "bench/judge/layer.h"
#include "bench/judge/dropout.h"
#include "bench/judge/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 10.0
enum { MOST_ROUNDED = 8 }; /* Computations with errors. */

/* ---- matrices -------------------------------------------------------------------------------- */

/* Rows of doubles, one after the other. */
struct matrix {
    double *at; /* Owned. */
    size_t rows, columns;
};

/* Zeros. */
static bool open_matrix(struct matrix *matrix, size_t rows, size_t columns)
{
    *matrix = (struct matrix){
        .at = calloc(rows * columns + 1, sizeof *matrix->at), .rows = rows, .columns = columns};
    return matrix->at != NULL;
}

static void close_matrix(struct matrix *matrix)
{
    free(matrix->at);
    *matrix = (struct matrix){.at = NULL};
}

static double *row_at(const struct matrix *matrix, size_t row)
{
    return matrix->at + row * matrix->columns;
}

static void add_row(double *restrict to, const double *restrict from, double factor, size_t count)
{
    for (size_t n = 0; n < count; n++)
        to[n] += factor * from[n];
}

static double squares(const double *x, size_t count)
{
    double sum = 0.0;

    for (size_t n = 0; n < count; n++)
        sum += x[n] * x[n];
    return sum;
}

/* ---- a computation --------------------------------------------------------------------------- */

/* Batches and kv heads, each from the first to before the end. */
struct range {
    size_t batch, batch_end;
    size_t head, head_end; /* Range of kv heads. */
};

/* Matrices of a part of a layer. Rows are those of its batches, (batch, seq); columns of q, k, v, o and their
 * gradients those of its heads, head after head. Matrices that the direction or the sources of the layer do not have, or
 * that nobody wants, are empty. */
struct computation {
    const clattn_multihead *layer;
    const struct layer_inputs *in;
    const struct reference *reference;
    struct range range;
    bool everything; /* Weights, and gradients of the options' tensors, are wanted as well. */
    bool rounded;    /* Values get random rounding errors. */
    uint64_t random;
    struct matrix read[3], dy; /* x, context, values. */
    struct matrix made[3], o;  /* q, k, v. */
    struct matrix gradient[3], d_o;
    struct matrix weights, dbias, dslopes, dsinks,
        dfunction; /* Row after row as they lie in memory. */
};

static void close_computation(struct computation *c)
{
    for (int n = 0; n < 3; n++) {
        close_matrix(&c->read[n]);
        close_matrix(&c->made[n]);
        close_matrix(&c->gradient[n]);
    }
    close_matrix(&c->dy);
    close_matrix(&c->o);
    close_matrix(&c->d_o);
    close_matrix(&c->weights);
    close_matrix(&c->dbias);
    close_matrix(&c->dslopes);
    close_matrix(&c->dsinks);
    close_matrix(&c->dfunction);
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* A random number of variance 1, by xorshift64. */
static double chance(struct computation *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return sqrt(12.0) * ((double)(c->random >> 11) * 0x1p-53 - 0.5);
}

/* A sum of n terms goes wrong by about u sqrt(n) times the root of its terms' squares when they are
 * added one by one; `norms` is that sqrt(n) times the root. Then it is rounded by that part of it. */
static void round_row(struct computation *c, double *row, size_t count, double norms, double part)
{
    for (size_t n = 0; c->rounded && n < count; n++)
        row[n] +=
            c->reference->arithmetic.sum * norms * chance(c) + part * fabs(row[n]) * chance(c);
}

/* Rounds a row of a product likewise, and as it is stored in the dtype. */
static void store_row(struct computation *c, double *row, size_t count, double norms)
{
    const struct arithmetic *a = &c->reference->arithmetic;
    const double stored = value_roundoff(c->layer->attention.dtype);

    round_row(c, row, count, norms, fmax(stored, a->precision == PRECISION_HALF ? a->value : 0.0));
}

/* Adds a term to an element of a sum over many pairs, which nothing multiplies. */
static void add_term(struct computation *c, struct matrix *sums, size_t n, double term)
{
    sums->at[n] += term;
    round_row(c, &sums->at[n], 1, 0.0, c->reference->arithmetic.value);
}

/* The random factor by which rounding to the dtype changes an operand in standard precision. */
static double rounded_operand(struct computation *c)
{
    return c->rounded ? 1.0 + c->reference->arithmetic.weight * chance(c) : 1.0;
}

/* The root of the mean of the columns' squares. */
static double column_norm(const struct matrix *m)
{
    return m->columns > 0 ? sqrt(squares(m->at, m->rows * m->columns) / (double)m->columns) : 0.0;
}

enum { BLOCK = 64 };

/* to += a b, with the rounding errors of such a product (store_row()). */
static void multiply(struct computation *c, struct matrix *to, const struct matrix *a,
                     const struct matrix *b)
{
    const double norm = column_norm(b);

    for (size_t begin = 0; begin < b->rows; begin += BLOCK) {
        const size_t end = begin + BLOCK < b->rows ? begin + BLOCK : b->rows;
        for (size_t m = 0; m < a->rows; m++)
            for (size_t n = begin; n < end; n++)
                add_row(row_at(to, m), row_at(b, n), row_at(a, m)[n], b->columns);
    }
    for (size_t m = 0; m < a->rows; m++)
        store_row(c, row_at(to, m), to->columns, sqrt(squares(row_at(a, m), a->columns)) * norm);
}

/* to += a^T b, likewise. */
static void multiply_transposed(struct computation *c, struct matrix *to, const struct matrix *a,
                                const struct matrix *b)
{
    const double norm = column_norm(a) * column_norm(b);

    for (size_t begin = 0; begin < a->columns; begin += BLOCK) {
        const size_t end = begin + BLOCK < a->columns ? begin + BLOCK : a->columns;
        for (size_t n = 0; n < a->rows; n++)
            for (size_t m = begin; m < end; m++)
                add_row(row_at(to, m), row_at(b, n), row_at(a, n)[m], b->columns);
    }
    for (size_t m = 0; m < to->rows; m++)
        store_row(c, row_at(to, m), to->columns, norm);
}

/* ---- what is read ---------------------------------------------------------------------------- */

/* Rows of x, context, values or dy, and columns of them. */
static size_t seq_of(const clattn_multihead *layer, enum layer_tensor id)
{
    const bool of_queries = id == LAYER_X || id == LAYER_DY || id == LAYER_Y || id == LAYER_DX;

    return of_queries ? layer->attention.seq_q : layer->attention.seq_kv;
}

static size_t columns_of(const clattn_multihead *layer, enum layer_tensor id)
{
    const clattn_problem *p = &layer->attention;
    const size_t rows = p->batch * seq_of(layer, id);

    return rows > 0 ? layer_elements(layer, id) / rows : 0;
}

/* The place of element (row, d); the row is counted within the range. */
static size_t row_place(const struct computation *c, enum layer_tensor id, size_t row, size_t d)
{
    const size_t seq = seq_of(c->layer, id), b = c->range.batch + row / seq, s = row % seq;

    return layer_row(c->layer, b, s, seq) * columns_of(c->layer, id) + d;
}

static bool load_rows(const struct computation *c, enum layer_tensor id, struct matrix *matrix)
{
    const size_t columns = columns_of(c->layer, id), seq = seq_of(c->layer, id);

    if (layer_elements(c->layer, id) == 0)
        return true;
    if (!open_matrix(matrix, (c->range.batch_end - c->range.batch) * seq, columns))
        return false;
    for (size_t n = 0; n < matrix->rows; n++)
        for (size_t d = 0; d < columns; d++)
            row_at(matrix, n)[d] = layer_input(c->layer, c->in, id, row_place(c, id, n, d));
    return true;
}

/* The range's first column of q, k or v (n), or of o that the output's product reads, and how many. */
static void find_columns(const struct computation *c, int n, size_t *first, size_t *count)
{
    const clattn_problem *p = &c->layer->attention;
    const size_t group = n == 0 || n == 3 ? p->heads / p->kv_heads : 1;
    const size_t dim = n < 2 ? p->dim_qk : p->dim_v;

    *first = c->range.head * group * dim;
    *count = (c->range.head_end - c->range.head) * group * dim;
}

/* The columns of product n, and of its operand, that belong to the range. */
struct extent {
    struct layer_part part;
    size_t column, columns, input, inputs;
};

static struct extent extent_of(const struct computation *c, int n)
{
    struct extent e = {.part = layer_part_of(c->layer, n)};

    e.columns = e.part.columns;
    e.inputs = e.part.inputs;
    if (n == 3)
        find_columns(c, n, &e.input, &e.inputs);
    else
        find_columns(c, n, &e.column, &e.columns);
    return e;
}

/* The part of a weight matrix that belongs to the range: (columns of the product, columns of the
 * other factor), or with `transposed` the other way round. */
static bool load_weights(const struct computation *c, int n, bool transposed, struct matrix *matrix)
{
    const struct extent e = extent_of(c, n);

    if (!open_matrix(matrix, transposed ? e.inputs : e.columns, transposed ? e.columns : e.inputs))
        return false;
    for (size_t k = 0; k < e.columns; k++)
        for (size_t m = 0; m < e.inputs; m++)
            *(transposed ? row_at(matrix, m) + k : row_at(matrix, k) + m) =
                layer_input(c->layer, c->in, e.part.w,
                            layer_weight_at(c->layer, &e.part, e.input + m, e.column + k));
    return true;
}

/* Adds product n's bias to each row, if there is one. */
static void add_bias(const struct computation *c, int n, struct matrix *to)
{
    const struct extent e = extent_of(c, n);

    if (layer_elements(c->layer, e.part.b) == 0)
        return;
    for (size_t k = 0; k < to->columns; k++) {
        const double bias = layer_input(c->layer, c->in, e.part.b, e.part.first + e.column + k);
        for (size_t r = 0; r < to->rows; r++)
            row_at(to, r)[k] += bias;
    }
}

/* ---- projections ----------------------------------------------------------------------------- */

/* Adds a times the weights of product n to rows, which are opened where they are not. */
static bool add_product(struct computation *c, struct matrix *rows, const struct matrix *a, int n,
                        bool transposed)
{
    struct matrix w = {.at = NULL};
    const bool ok = load_weights(c, n, transposed, &w) &&
                    (rows->at != NULL || open_matrix(rows, a->rows, w.columns));

    if (ok)
        multiply(c, rows, a, &w);
    close_matrix(&w);
    return ok;
}

/* The operand of product n: x, context or values; o for the output. */
static const struct matrix *source_of(const struct computation *c, int n)
{
    return n == 3 ? &c->o : &c->read[layer_part_of(c->layer, n).source - LAYER_X];
}

static bool project(struct computation *c, int n, struct matrix *y)
{
    const struct extent e = extent_of(c, n);

    if (!open_matrix(y, source_of(c, n)->rows, e.columns))
        return false;
    add_bias(c, n, y);
    return add_product(c, y, source_of(c, n), n, true);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The data of one head: k and v of a batch by columns, so that loops go along the keys; weights and
 * gradients of a row. */
struct head {
    struct matrix k, v, room;
    double *p, *slope,
        *dp;     /* One row's weights, derivatives of softcap and score function, and dot(do, v). */
    double *raw; /* One row's scaled products. */
    double *p_squares, *ds_squares;         /* Sums over all rows. */
    double sink;                            /* The row's weight of the sink. */
    double k_norm, v_norm, q_norm, do_norm; /* Root-mean-square norms of columns. */
    size_t batch, h, kv_head;               /* Indices within the range. */
};

/* Columns [first, first + count) of some rows, as rows. */
static void turn(struct matrix *to, const struct matrix *from, size_t first_row, size_t first)
{
    for (size_t n = 0; n < to->columns; n++)
        for (size_t d = 0; d < to->rows; d++)
            row_at(to, d)[n] = row_at(from, first_row + n)[first + d];
}

static double part_norm(const struct matrix *m, size_t first_row, size_t rows, size_t first,
                        size_t columns)
{
    double sum = 0.0;

    for (size_t n = 0; n < rows; n++)
        sum += squares(row_at(m, first_row + n) + first, columns);
    return sqrt(sum / (double)columns);
}

static bool open_head(struct head *head, const clattn_problem *p)
{
    const bool ok = open_matrix(&head->k, p->dim_qk, p->seq_kv) &&
                    open_matrix(&head->v, p->dim_v, p->seq_kv) &&
                    open_matrix(&head->room, 6, p->seq_kv);

    if (ok) {
        head->p = row_at(&head->room, 0);
        head->slope = row_at(&head->room, 1);
        head->dp = row_at(&head->room, 2);
        head->p_squares = row_at(&head->room, 3);
        head->ds_squares = row_at(&head->room, 4);
        head->raw = row_at(&head->room, 5);
    }
    return ok;
}

static void close_head(struct head *head)
{
    close_matrix(&head->k);
    close_matrix(&head->v);
    close_matrix(&head->room);
}

static void enter_head(struct computation *c, struct head *head, size_t batch, size_t h)
{
    const clattn_problem *p = &c->layer->attention;
    const struct matrix *q = &c->made[0], *k = &c->made[1], *v = &c->made[2];

    head->batch = batch;
    head->h = h;
    head->kv_head = h / (p->heads / p->kv_heads);
    turn(&head->k, k, batch * p->seq_kv, head->kv_head * p->dim_qk);
    turn(&head->v, v, batch * p->seq_kv, head->kv_head * p->dim_v);
    head->k_norm = part_norm(k, batch * p->seq_kv, p->seq_kv, head->kv_head * p->dim_qk, p->dim_qk);
    head->v_norm = part_norm(v, batch * p->seq_kv, p->seq_kv, head->kv_head * p->dim_v, p->dim_v);
    head->q_norm = part_norm(q, batch * p->seq_q, p->seq_q, h * p->dim_qk, p->dim_qk);
    if (c->d_o.at != NULL)
        head->do_norm = part_norm(&c->d_o, batch * p->seq_q, p->seq_q, h * p->dim_v, p->dim_v);
    memset(head->p_squares, 0, 2 * p->seq_kv * sizeof(double));
}

static double input(const struct computation *c, enum layer_tensor id, size_t n)
{
    return layer_input(c->layer, c->in, id, n);
}

/* The place of the pair's element of the bias. */
static size_t bias_place(const struct computation *c, const struct query *query, size_t j)
{
    const size_t *stride = c->layer->attention.bias_layout.stride;

    return query->b * stride[0] + query->h * stride[1] + query->i * stride[2] + j * stride[3];
}

static double sink_of(const struct computation *c, const struct query *query)
{
    return c->layer->attention.sinks ? input(c, LAYER_SINKS, query->h) : -(double)INFINITY;
}

/* Computes scores from the product's results: tanh has an error of some ulp, sums with bias and
 * distance of one each. */
static void finish_scores(struct computation *c, struct head *head, const struct query *query)
{
    const struct reference *r = c->reference;
    const clattn_problem *p = r->problem;

    for (size_t j = 0; j < p->seq_kv; j++) {
        const double bias = p->bias ? input(c, LAYER_BIAS, bias_place(c, query, j)) : 0.0;
        const double alibi =
            p->alibi ? input(c, LAYER_SLOPES, query->h) * reference_distance(r, query, j) : 0.0;
        struct score score = {.raw = bounded_exactly(head->p[j])};
        reference_score_add(r, query, j, bias, alibi, &score);
        head->raw[j] = score.raw.value;
        head->slope[j] = score.slope.value;
        head->p[j] = -(double)INFINITY;
        if (bias == -(double)INFINITY || !reference_sees(r, query, j))
            continue;
        const double rounding = (p->softcap > 0.0f ? 4.0 * fabs(score.capped.value) : 0.0) +
                                fabs(bias) + fabs(alibi) + fabs(score.s.value);
        head->p[j] = score.s.value;
        if (c->rounded)
            head->p[j] +=
                (r->arithmetic.value * rounding + (r->score_function ? score.mapped.bound : 0.0)) *
                chance(c);
    }
}

/* Weights of the row after the softmax, with room for rounding: of a score, of exp. */
static void weigh(struct computation *c, struct head *head, const struct query *query,
                  const double *q)
{
    const clattn_problem *p = &c->layer->attention;
    const struct reference *r = c->reference;
    const double q_norm = sqrt(squares(q, p->dim_qk));
    const double norms =
        fabs(r->scale) * q_norm * head->k_norm * sqrt((double)p->dim_qk / (double)(p->seq_kv + 1));
    const double sink = sink_of(c, query);
    double maximum = sink, total = 0.0;

    memset(head->p, 0, p->seq_kv * sizeof(double));
    for (size_t d = 0; d < p->dim_qk; d++)
        add_row(head->p, row_at(&head->k, d), r->scale * q[d], p->seq_kv);
    round_row(c, head->p, p->seq_kv, norms, r->arithmetic.value);
    finish_scores(c, head, query);
    head->sink = 0.0;
    bool sees = false;
    for (size_t j = 0; j < p->seq_kv; j++) {
        maximum = fmax(maximum, head->p[j]);
        sees = sees || head->p[j] > -(double)INFINITY;
    }
    if (!sees) {
        memset(head->p, 0, p->seq_kv * sizeof(double));
        return;
    }
    for (size_t j = 0; j < p->seq_kv; j++) {
        const double x = head->p[j] - maximum;
        head->p[j] = exp(x);
        if (c->rounded && x > -(double)INFINITY)
            head->p[j] *= 1.0 + r->arithmetic.value * (2.0 + fabs(x)) * chance(c);
        total += head->p[j];
    }
    total += exp(sink - maximum);
    for (size_t j = 0; j < p->seq_kv; j++)
        head->p[j] /= total;
    head->sink = exp(sink - maximum) / total;
}

/* The factor by which dropout multiplies the weight of a pair. */
static double kept(const struct computation *c, const struct query *query, size_t j)
{
    const struct reference *r = c->reference;

    return reference_dropout_factor(r->problem, r->view, query->b, query->h, query->i, j);
}

/* The row's weights before dropout, or their mean over the heads. */
static void hand_out(struct computation *c, const struct head *head, const struct query *query)
{
    const clattn_problem *p = &c->layer->attention;
    const bool of_heads = c->layer->weights == CLATTN_WEIGHTS_HEADS;
    const size_t row = of_heads ? (query->b * p->heads + query->h) * p->seq_q + query->i
                                : query->b * p->seq_q + query->i;

    for (size_t j = 0; j < p->seq_kv; j++)
        add_term(c, &c->weights, row * p->seq_kv + j,
                 head->p[j] / (of_heads ? 1.0 : (double)p->heads));
}

static void attend(struct computation *c, struct head *head, const struct query *query, size_t n)
{
    const clattn_problem *p = &c->layer->attention;
    double *o = row_at(&c->o, n) + head->h * p->dim_v;

    weigh(c, head, query, row_at(&c->made[0], n) + head->h * p->dim_qk);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const double weight = head->p[j] * kept(c, query, j);
        if (weight != 0.0)
            add_row(o, row_at(&c->made[2], head->batch * p->seq_kv + j) + head->kv_head * p->dim_v,
                    weight * rounded_operand(c), p->dim_v);
    }
    store_row(c, o, p->dim_v, sqrt(squares(head->p, p->seq_kv)) * head->v_norm);
    if (c->weights.at != NULL)
        hand_out(c, head, query);
}

/* dot(do, v) of all keys. */
static void multiply_values(struct head *head, const double *d_o, size_t dim)
{
    memset(head->dp, 0, head->v.columns * sizeof *head->dp);
    for (size_t d = 0; d < dim; d++)
        add_row(head->dp, row_at(&head->v, d), d_o[d], head->v.columns);
}

/* Adds a pair's share, raw times the derivative, to the gradient of each element that the score function loads. */
static void add_loads(struct computation *c, const struct head *head, const struct query *query,
                      size_t j, double raw)
{
    const clattn_problem *p = &c->layer->attention;
    struct score score = {.raw = bounded_exactly(head->raw[j])};
    struct function_load loads[64];

    reference_score_add(c->reference, query, j, 0.0, 0.0, &score);
    const size_t count =
        reference_loads(c->reference, query, j, &score, loads, sizeof loads / sizeof *loads);
    for (size_t n = 0; n < count; n++) {
        const size_t first = tensor_function_gradient(p, loads[n].operand);
        const size_t end = tensor_function_gradient(p, loads[n].operand + 1);
        if (loads[n].element < end - first)
            add_term(c, &c->dfunction, first + loads[n].element, raw * loads[n].slope.value);
    }
}

static void derive(struct computation *c, struct head *head, const struct query *query, size_t n)
{
    const clattn_problem *p = &c->layer->attention;
    const double *q = row_at(&c->made[0], n) + head->h * p->dim_qk;
    const double *d_o = row_at(&c->d_o, n) + head->h * p->dim_v;
    const double *o = row_at(&c->o, n) + head->h * p->dim_v;
    const double do_norm = sqrt(squares(d_o, p->dim_v)), scale = c->reference->scale;
    double *dq = row_at(&c->gradient[0], n) + head->h * p->dim_qk;
    double delta = 0.0, all_squares = 0.0;

    for (size_t d = 0; d < p->dim_v; d++)
        delta += d_o[d] * o[d];
    multiply_values(head, d_o, p->dim_v);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const size_t key = head->batch * p->seq_kv + j;
        const double factor = kept(c, query, j);
        double raw = head->p[j] * (factor * head->dp[j] - delta);
        if (head->p[j] == 0.0)
            continue;
        round_row(c, &raw, 1, head->p[j] * do_norm * head->v_norm / sqrt((double)p->seq_kv),
                  c->reference->arithmetic.value);
        if (c->dbias.at != NULL)
            add_term(c, &c->dbias, bias_place(c, query, j), raw);
        if (c->dslopes.at != NULL)
            add_term(c, &c->dslopes, query->h, raw * reference_distance(c->reference, query, j));
        if (c->dfunction.at != NULL)
            add_loads(c, head, query, j, raw);
        double ds = raw * head->slope[j];
        all_squares += ds * ds;
        head->ds_squares[j] += ds * ds;
        head->p_squares[j] += head->p[j] * head->p[j];
        ds *= rounded_operand(c);
        add_row(dq, row_at(&c->made[1], key) + head->kv_head * p->dim_qk, scale * ds, p->dim_qk);
        add_row(row_at(&c->gradient[1], key) + head->kv_head * p->dim_qk, q, scale * ds, p->dim_qk);
        add_row(row_at(&c->gradient[2], key) + head->kv_head * p->dim_v, d_o,
                head->p[j] * factor * rounded_operand(c), p->dim_v);
    }
    store_row(c, dq, p->dim_qk, fabs(scale) * sqrt(all_squares) * head->k_norm);
    if (c->dsinks.at != NULL)
        add_term(c, &c->dsinks, query->h, -head->sink * delta);
}

static void leave_head(struct computation *c, const struct head *head)
{
    const clattn_problem *p = &c->layer->attention;

    for (size_t j = 0; c->gradient[1].at != NULL && j < p->seq_kv; j++) {
        const size_t key = head->batch * p->seq_kv + j;
        store_row(c, row_at(&c->gradient[1], key) + head->kv_head * p->dim_qk, p->dim_qk,
                  fabs(c->reference->scale) * sqrt(head->ds_squares[j]) * head->q_norm);
        store_row(c, row_at(&c->gradient[2], key) + head->kv_head * p->dim_v, p->dim_v,
                  sqrt(head->p_squares[j]) * head->do_norm);
    }
}

static bool attend_all(struct computation *c)
{
    const clattn_problem *p = &c->layer->attention;
    const size_t group = p->heads / p->kv_heads;
    const size_t heads = (c->range.head_end - c->range.head) * group;
    struct head head = {.dp = NULL};
    const bool ok = open_head(&head, p);

    for (size_t b = 0; ok && b < c->range.batch_end - c->range.batch; b++)
        for (size_t h = 0; h < heads; h++) {
            enter_head(c, &head, b, h);
            for (size_t i = 0; i < p->seq_q; i++) {
                const struct query query =
                    reference_query(c->reference, c->range.batch + b, c->range.head * group + h, i);
                attend(c, &head, &query, b * p->seq_q + i);
                if (c->d_o.at != NULL)
                    derive(c, &head, &query, b * p->seq_q + i);
            }
            leave_head(c, &head);
        }
    close_head(&head);
    return ok;
}

/* The results that are summed pair by pair, if they are wanted. */
static struct matrix *sums_of(struct computation *c, enum layer_tensor id)
{
    return id == LAYER_WEIGHTS   ? &c->weights
           : id == LAYER_DBIAS   ? &c->dbias
           : id == LAYER_DSLOPES ? &c->dslopes
           : id == LAYER_DSINKS  ? &c->dsinks
                                 : &c->dfunction;
}

static const enum layer_tensor summed[] = {LAYER_WEIGHTS, LAYER_DBIAS, LAYER_DSLOPES, LAYER_DSINKS,
                                           LAYER_DFUNCTION};
enum { NUM_SUMMED = sizeof summed / sizeof *summed };

static bool open_sums(struct computation *c)
{
    const bool backward = c->layer->attention.operation == CLATTN_BACKWARD;

    for (size_t n = 0; c->everything && n < NUM_SUMMED; n++) {
        const size_t elements = layer_elements(c->layer, summed[n]);
        const size_t columns = summed[n] == LAYER_WEIGHTS ? c->layer->attention.seq_kv : elements;
        if (backward == (summed[n] != LAYER_WEIGHTS) && elements > 0 &&
            !open_matrix(sums_of(c, summed[n]), elements / columns, columns))
            return false;
    }
    return true;
}

/* Forward, and of backward the gradients up to dq, dk and dv. */
static bool run(struct computation *c)
{
    const clattn_problem *p = &c->layer->attention;
    const bool backward = p->operation == CLATTN_BACKWARD;
    bool ok = open_sums(c) && (!backward || load_rows(c, LAYER_DY, &c->dy));

    for (int n = 0; ok && n < 3; n++)
        ok = load_rows(c, (enum layer_tensor)(LAYER_X + n), &c->read[n]);
    for (int n = 0; ok && n < 3; n++)
        ok = project(c, n, &c->made[n]);
    ok = ok && open_matrix(&c->o, c->made[0].rows, c->made[0].columns / p->dim_qk * p->dim_v) &&
         (!backward || add_product(c, &c->d_o, &c->dy, 3, false));
    for (int n = 0; ok && backward && n < 3; n++)
        ok = open_matrix(&c->gradient[n], c->made[n].rows, c->made[n].columns);
    return ok && attend_all(c);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The gradient of x, the context or the values. */
static bool make_input_gradient(struct computation *c, enum layer_tensor source, struct matrix *to)
{
    for (int n = 0; n < 3; n++)
        if (layer_part_of(c->layer, n).source == source &&
            !add_product(c, to, &c->gradient[n], n, false))
            return false;
    return true;
}

/* The gradient of the weights, or of the bias, of product n. */
static bool make_parameter_gradient(struct computation *c, int n, bool bias, struct matrix *to)
{
    const struct matrix *columns = n == 3 ? &c->dy : &c->gradient[n], *source = source_of(c, n);
    struct matrix ones = {.at = NULL};
    bool ok = open_matrix(to, columns->columns, bias ? 1 : source->columns) &&
              (!bias || open_matrix(&ones, columns->rows, 1));

    for (size_t r = 0; ok && r < ones.rows; r++)
        ones.at[r] = 1.0;
    if (ok)
        multiply_transposed(c, to, columns, bias ? &ones : source);
    close_matrix(&ones);
    return ok;
}

/* A result, and where its elements lie: of rows (id), or of a parameter of product n. */
struct result {
    enum layer_tensor id;
    enum { OF_ROWS, OF_WEIGHTS, OF_BIAS, OF_SUMS } kind;
    int n;
};

/* Makes a result: moves the sums, or computes them. */
static bool make(struct computation *c, const struct result *result, struct matrix *to)
{
    if (result->kind == OF_SUMS) {
        *to = *sums_of(c, result->id);
        *sums_of(c, result->id) = (struct matrix){.at = NULL};
        return true;
    }
    if (result->kind != OF_ROWS)
        return make_parameter_gradient(c, result->n, result->kind == OF_BIAS, to);
    if (result->id != LAYER_Y)
        return make_input_gradient(c, (enum layer_tensor)(result->id - LAYER_DX + LAYER_X), to);
    if (!add_product(c, to, &c->o, 3, true))
        return false;
    add_bias(c, 3, to);
    return true;
}

/* The place of element (row, column); rows of a parameter's gradient are the product's columns. */
static size_t place_of(const struct computation *c, const struct result *result,
                       const struct matrix *made, size_t row, size_t column)
{
    const struct extent e = extent_of(c, result->n);

    switch (result->kind) {
    case OF_ROWS:
        return row_place(c, result->id, row, column);
    case OF_WEIGHTS:
        return layer_weight_at(c->layer, &e.part, e.input + column, e.column + row);
    case OF_BIAS:
        return e.part.first + e.column + row;
    default:
        return row * made->columns + column;
    }
}

/* The first computation is exact, the others have errors. */
struct computations {
    struct computation of[1 + MOST_ROUNDED];
    size_t count;
};

static double mean_square(const struct matrix *made, size_t rounded, size_t first, size_t count)
{
    double sum = 0.0;

    for (size_t k = 1; k <= rounded; k++)
        for (size_t n = first; n < first + count; n++)
            sum += (made[k].at[n] - made[0].at[n]) * (made[k].at[n] - made[0].at[n]);
    return count > 0 ? sum / (double)(count * rounded) : 0.0;
}

static bool add_answers(const struct computation *c, const struct result *result,
                        const struct matrix *made, size_t rounded, struct layer_answers *answers)
{
    const size_t columns = made[0].columns, all = made[0].rows * columns;
    const clattn_dtype dtype = layer_dtype(c->layer, result->id);
    const double of_all = mean_square(made, rounded, 0, all);
    struct layer_answer *list =
        realloc(answers->list, (answers->count + all + 1) * sizeof *answers->list);

    if (list == NULL)
        return false;
    answers->list = list;
    for (size_t row = 0; row < made[0].rows; row++) {
        const double of_row = mean_square(made, rounded, row * columns, columns);
        for (size_t column = 0; column < columns; column++) {
            const size_t n = row * columns + column;
            const double own = rounded > 1 ? mean_square(made, rounded, n, 1) : 0.0;
            const double value = made[0].at[n];
            list[answers->count++] = (struct layer_answer){
                .id = result->id,
                .place = place_of(c, result, made, row, column),
                .want = {value, TIMES * sqrt(own + of_row + of_all) +
                                    value_roundoff(dtype) * fabs(value) + value_tiny(dtype)}};
        }
    }
    return true;
}

static bool add_result(struct computations *all, const struct result *result,
                       struct layer_answers *answers)
{
    struct matrix made[1 + MOST_ROUNDED] = {{.at = NULL}};
    bool ok = true;

    for (size_t n = 0; ok && n < all->count; n++)
        ok = make(&all->of[n], result, &made[n]);
    ok = ok && add_answers(&all->of[0], result, made, all->count - 1, answers);
    for (size_t n = 0; n < all->count; n++)
        close_matrix(&made[n]);
    return ok;
}

/* y, or the gradients of what the products read; and what is summed pair by pair. */
static bool add_rows(struct computations *all, struct layer_answers *answers)
{
    const clattn_multihead *layer = all->of[0].layer;
    const bool backward = layer->attention.operation == CLATTN_BACKWARD;

    for (int id = backward ? LAYER_DX : LAYER_Y; id <= (backward ? LAYER_DVALUES : LAYER_Y); id++)
        if (layer_elements(layer, (enum layer_tensor)id) > 0 &&
            !add_result(all, &(struct result){(enum layer_tensor)id, OF_ROWS, 0}, answers))
            return false;
    for (size_t n = 0; n < NUM_SUMMED; n++)
        if (sums_of(&all->of[0], summed[n])->at != NULL &&
            !add_result(all, &(struct result){summed[n], OF_SUMS, 0}, answers))
            return false;
    return true;
}

static bool add_parameters(struct computations *all, struct layer_answers *answers)
{
    const clattn_multihead *layer = all->of[0].layer;

    for (int n = 0; n < 8; n++) {
        const bool bias = n >= 4;
        const struct layer_part part = layer_part_of(layer, n % 4);
        const struct result result = {bias ? part.b - LAYER_B_Q + LAYER_DB_Q
                                           : part.w - LAYER_W_Q + LAYER_DW_Q,
                                      bias ? OF_BIAS : OF_WEIGHTS, n % 4};
        if (layer_elements(layer, result.id) > 0 && !add_result(all, &result, answers))
            return false;
    }
    return true;
}

/* Makes the answers of a part: of its rows, of parameters, or both. `rounded` more computations of it, with random rounding
 * errors, show how far results may be off. */
static bool make_part(const struct computation *part, size_t rounded, bool rows, bool parameters,
                      struct layer_answers *answers)
{
    struct computations all = {.count = 1 + rounded};
    bool ok = true;

    for (size_t n = 0; n < all.count; n++) {
        all.of[n] = *part;
        all.of[n].rounded = n > 0;
        all.of[n].random = n * UINT64_C(0x9e3779b97f4a7c15);
        ok = ok && run(&all.of[n]);
    }
    ok = ok && (!rows || add_rows(&all, answers)) && (!parameters || add_parameters(&all, answers));
    for (size_t n = 0; n < all.count; n++)
        close_computation(&all.of[n]);
    return ok;
}

static struct range all_of(const clattn_problem *p)
{
    return (struct range){0, p->batch, 0, p->kv_heads};
}

bool layer_answers_make(const clattn_multihead *layer, const struct layer_inputs *in,
                        enum precision precision, bool whole, struct layer_answers *answers)
{
    const clattn_problem *p = &layer->attention;
    const struct reference reference = reference_of(p, &in->options, precision);
    const bool backward = p->operation == CLATTN_BACKWARD;
    struct computation part = {
        .layer = layer, .in = in, .reference = &reference, .range = all_of(p)};

    if (!whole && p->batch > 0)
        part.range.batch = p->batch - 1;
    answers->made = make_part(&part, 1, true, whole && backward, answers);
    part.range = (struct range){0, p->batch, 0, 1};
    if (answers->made && !whole && backward)
        answers->made = make_part(&part, 1, false, true, answers);
    return answers->made;
}

/* ---- everything ------------------------------------------------------------------------------ */

static bool make_everything(const clattn_multihead *layer, const struct layer_inputs *in,
                            struct layer_answers *answers)
{
    const clattn_problem *p = &layer->attention;
    const struct reference reference = reference_of(p, &in->options, PRECISION_SINGLE);
    const struct computation all = {
        .layer = layer, .in = in, .reference = &reference, .range = all_of(p), .everything = true};

    return make_part(&all, MOST_ROUNDED, true, p->operation == CLATTN_BACKWARD, answers);
}

bool reference_layer_open(const clattn_multihead *layer, const struct layer_inputs *in,
                          struct layer_outputs *out)
{
    clattn_multihead directions[2] = {*layer, *layer};
    struct layer_answers answers = {.list = NULL};
    bool ok = true;

    *out = (struct layer_outputs){{NULL}};
    directions[0].attention.operation = CLATTN_FORWARD;
    directions[1].attention.operation = CLATTN_BACKWARD;
    for (int id = LAYER_Y; ok && id < NUM_LAYER_TENSORS; id++) {
        const size_t elements = layer_elements(layer, (enum layer_tensor)id);
        out->at[id] = elements > 0 ? calloc(elements, sizeof(struct bounded)) : NULL;
        ok = elements == 0 || out->at[id] != NULL;
    }
    for (int n = 0; ok && n < 2; n++)
        ok = make_everything(&directions[n], in, &answers);
    for (size_t n = 0; ok && n < answers.count; n++)
        out->at[answers.list[n].id][answers.list[n].place] = answers.list[n].want;
    free(answers.list);
    return ok;
}

void reference_layer_close(struct layer_outputs *out)
{
    for (int id = 0; id < NUM_LAYER_TENSORS; id++)
        free(out->at[id]);
}
