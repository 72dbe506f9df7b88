/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/layer_likely.h"
#include "bench/judge/dropout.h"
#include "bench/judge/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 10.0

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

/* Of each from the first to before the end. */
struct range {
    size_t batch, batch_end;
    size_t head, head_end; /* Of k and v. */
};

/* Matrices of a part of a layer. Rows are those of its batches, (batch, seq); columns of q, k, v, o and their
 * gradients those of its heads, head after head. What a direction or a source has not is empty. */
struct computation {
    const clattn_multihead *layer;
    const struct layer_inputs *in;
    const struct reference *reference;
    struct range range;
    bool rounded; /* With rounding errors. */
    uint64_t random;
    struct matrix read[3], dy; /* x, context, values. */
    struct matrix made[3], o;  /* q, k, v. */
    struct matrix gradient[3], d_o;
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
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* Of variance 1; xorshift64. */
static double chance(struct computation *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return sqrt(12.0) * ((double)(c->random >> 11) * 0x1p-53 - 0.5);
}

/* A sum of n terms goes wrong by about u sqrt(n) times the root of its terms' squares when they are
 * added one by one; `norms` is that sqrt(n) times the root. Then it is stored. */
static void round_row(struct computation *c, double *row, size_t count, double norms)
{
    const struct arithmetic *a = &c->reference->arithmetic;
    const double stored = fmax(value_roundoff(c->layer->attention.dtype),
                               a->precision == PRECISION_HALF ? a->value : 0.0);

    for (size_t n = 0; c->rounded && n < count; n++)
        row[n] += a->sum * norms * chance(c) + stored * fabs(row[n]) * chance(c);
}

/* What rounding an operand to the dtype, of standard precision, multiplies it with. */
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

/* to += a b, with the rounding errors of such a product. */
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
        round_row(c, row_at(to, m), to->columns, sqrt(squares(row_at(a, m), a->columns)) * norm);
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
        round_row(c, row_at(to, m), to->columns, norm);
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

/* Where element (row, d) lies, the row counted in the range. */
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

/* Of product n: the range's columns, and the range's of what is multiplied. */
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

/* A weight matrix as far as it belongs to the range: (columns of the product, columns of what is multiplied) or,
 * `transposed`, the other way round. */
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

/* What product n reads: x, context or values, and of the output o. */
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

/* Of one head: k and v of a batch by columns, so that loops go along the keys; weights and
 * gradients of a row. */
struct head {
    struct matrix k, v, room;
    double *p, *slope, *dp;         /* Of a row: weights, softcap's derivative, dot(do, v). */
    double *p_squares, *ds_squares; /* Sums over all rows. */
    double k_norm, v_norm, q_norm, do_norm; /* Of columns. */
    size_t batch, h, kv_head;               /* Counted in the range. */
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
                    open_matrix(&head->room, 5, p->seq_kv);

    if (ok) {
        head->p = row_at(&head->room, 0);
        head->slope = row_at(&head->room, 1);
        head->dp = row_at(&head->room, 2);
        head->p_squares = row_at(&head->room, 3);
        head->ds_squares = row_at(&head->room, 4);
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

/* What follows the product of scores. */
static void finish_scores(const struct reference *r, struct head *head, const struct query *query)
{
    for (size_t j = 0; j < r->problem->seq_kv; j++) {
        struct score score = {.raw = bounded_exactly(head->p[j])};
        reference_score_finish(r, query, j, &score);
        head->slope[j] = score.slope.value;
        head->p[j] = reference_sees(r, query, j) ? score.s.value : -(double)INFINITY;
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
    double maximum = reference_sink(r, query), total = 0.0;

    memset(head->p, 0, p->seq_kv * sizeof(double));
    for (size_t d = 0; d < p->dim_qk; d++)
        add_row(head->p, row_at(&head->k, d), r->scale * q[d], p->seq_kv);
    round_row(c, head->p, p->seq_kv, norms);
    finish_scores(r, head, query);
    for (size_t j = 0; j < p->seq_kv; j++)
        maximum = fmax(maximum, head->p[j]);
    if (maximum == -(double)INFINITY) {
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
    total += exp(reference_sink(r, query) - maximum);
    for (size_t j = 0; j < p->seq_kv; j++)
        head->p[j] /= total;
}

/* What dropout multiplies the weight of a pair with. */
static double kept(const struct computation *c, const struct query *query, size_t j)
{
    const struct reference *r = c->reference;

    return reference_dropout_factor(r->problem, r->view, query->b, query->h, query->i, j);
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
    round_row(c, o, p->dim_v, sqrt(squares(head->p, p->seq_kv)) * head->v_norm);
}

/* dot(do, v) of all keys. */
static void multiply_values(struct head *head, const double *d_o, size_t dim)
{
    memset(head->dp, 0, head->v.columns * sizeof *head->dp);
    for (size_t d = 0; d < dim; d++)
        add_row(head->dp, row_at(&head->v, d), d_o[d], head->v.columns);
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
        double ds = head->p[j] * (factor * head->dp[j] - delta) * head->slope[j];
        if (head->p[j] == 0.0)
            continue;
        round_row(c, &ds, 1, head->p[j] * do_norm * head->v_norm / sqrt((double)p->seq_kv));
        all_squares += ds * ds;
        head->ds_squares[j] += ds * ds;
        head->p_squares[j] += head->p[j] * head->p[j];
        ds *= rounded_operand(c);
        add_row(dq, row_at(&c->made[1], key) + head->kv_head * p->dim_qk, scale * ds, p->dim_qk);
        add_row(row_at(&c->gradient[1], key) + head->kv_head * p->dim_qk, q, scale * ds, p->dim_qk);
        add_row(row_at(&c->gradient[2], key) + head->kv_head * p->dim_v, d_o,
                head->p[j] * factor * rounded_operand(c), p->dim_v);
    }
    round_row(c, dq, p->dim_qk, fabs(scale) * sqrt(all_squares) * head->k_norm);
}

static void leave_head(struct computation *c, const struct head *head)
{
    const clattn_problem *p = &c->layer->attention;

    for (size_t j = 0; c->gradient[1].at != NULL && j < p->seq_kv; j++) {
        const size_t key = head->batch * p->seq_kv + j;
        round_row(c, row_at(&c->gradient[1], key) + head->kv_head * p->dim_qk, p->dim_qk,
                  fabs(c->reference->scale) * sqrt(head->ds_squares[j]) * head->q_norm);
        round_row(c, row_at(&c->gradient[2], key) + head->kv_head * p->dim_v, p->dim_v,
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

/* Forward, and of backward the gradients up to dq, dk and dv. */
static bool run(struct computation *c)
{
    const clattn_problem *p = &c->layer->attention;
    const bool backward = p->operation == CLATTN_BACKWARD;
    bool ok = !backward || load_rows(c, LAYER_DY, &c->dy);

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
    int n; /* -1: rows */
    bool bias;
};

static bool make(struct computation *c, const struct result *result, struct matrix *to)
{
    if (result->n >= 0)
        return make_parameter_gradient(c, result->n, result->bias, to);
    if (result->id != LAYER_Y)
        return make_input_gradient(c, (enum layer_tensor)(result->id - LAYER_DX + LAYER_X), to);
    if (!add_product(c, to, &c->o, 3, true))
        return false;
    add_bias(c, 3, to);
    return true;
}

/* Of element (row, column); rows of a parameter's gradient are the product's columns. */
static size_t place_of(const struct computation *c, const struct result *result, size_t row,
                       size_t column)
{
    if (result->n < 0)
        return row_place(c, result->id, row, column);
    const struct extent e = extent_of(c, result->n);
    return result->bias ? e.part.first + e.column + row
                        : layer_weight_at(c->layer, &e.part, e.input + column, e.column + row);
}

static double mean_square(const double *a, const double *b, size_t count)
{
    double sum = 0.0;

    for (size_t n = 0; n < count; n++)
        sum += (a[n] - b[n]) * (a[n] - b[n]);
    return count > 0 ? sum / (double)count : 0.0;
}

static bool add_answers(const struct computation *c, const struct result *result,
                        const struct matrix *exact, const struct matrix *rounded,
                        struct layer_answers *answers)
{
    const size_t all = exact->rows * exact->columns;
    const clattn_dtype dtype = c->layer->attention.dtype;
    const double of_all = mean_square(exact->at, rounded->at, all);
    struct layer_answer *list =
        realloc(answers->list, (answers->count + all + 1) * sizeof *answers->list);

    if (list == NULL)
        return false;
    answers->list = list;
    for (size_t n = 0; n < all; n++) {
        const size_t row = n / exact->columns;
        const double *want = row_at(exact, row);
        const double of_row = mean_square(want, row_at(rounded, row), exact->columns);
        const double value = exact->at[n];
        list[answers->count++] = (struct layer_answer){
            .id = result->id,
            .place = place_of(c, result, row, n % exact->columns),
            .want = {value, TIMES * sqrt(of_row + of_all) + value_roundoff(dtype) * fabs(value) +
                                value_tiny(dtype)}};
    }
    return true;
}

/* A result computed twice. */
static bool add_result(struct computation both[2], const struct result *result,
                       struct layer_answers *answers)
{
    struct matrix made[2] = {{.at = NULL}, {.at = NULL}};
    const bool ok = make(&both[0], result, &made[0]) && make(&both[1], result, &made[1]) &&
                    add_answers(&both[0], result, &made[0], &made[1], answers);

    close_matrix(&made[0]);
    close_matrix(&made[1]);
    return ok;
}

static bool add_rows(struct computation both[2], struct layer_answers *answers)
{
    const clattn_multihead *layer = both[0].layer;

    if (layer->attention.operation != CLATTN_BACKWARD)
        return add_result(both, &(struct result){LAYER_Y, -1, false}, answers);
    for (int id = LAYER_DX; id <= LAYER_DVALUES; id++)
        if (layer_elements(layer, (enum layer_tensor)id) > 0 &&
            !add_result(both, &(struct result){(enum layer_tensor)id, -1, false}, answers))
            return false;
    return true;
}

static bool add_parameters(struct computation both[2], struct layer_answers *answers)
{
    const clattn_multihead *layer = both[0].layer;

    for (int n = 0; n < 8; n++) {
        const bool bias = n >= 4;
        const struct layer_part part = layer_part_of(layer, n % 4);
        const struct result result = {
            bias ? part.b - LAYER_B_Q + LAYER_DB_Q : part.w - LAYER_W_Q + LAYER_DW_Q, n % 4, bias};
        if (layer_elements(layer, result.id) > 0 && !add_result(both, &result, answers))
            return false;
    }
    return true;
}

static bool make_part(const clattn_multihead *layer, const struct layer_inputs *in,
                      const struct reference *reference, struct range range, bool rows,
                      bool parameters, struct layer_answers *answers)
{
    struct computation both[2];

    both[0] =
        (struct computation){.layer = layer, .in = in, .reference = reference, .range = range};
    both[1] = both[0];
    both[1].rounded = true;
    both[1].random = 1;
    const bool ok = run(&both[0]) && run(&both[1]) && (!rows || add_rows(both, answers)) &&
                    (!parameters || add_parameters(both, answers));
    close_computation(&both[0]);
    close_computation(&both[1]);
    return ok;
}

bool layer_answers_make(const clattn_multihead *layer, const struct layer_inputs *in,
                        enum precision precision, bool whole, struct layer_answers *answers)
{
    const clattn_problem *p = &layer->attention;
    const struct range all = {0, p->batch, 0, p->kv_heads};
    const struct range last_batch = {p->batch > 0 ? p->batch - 1 : 0, p->batch, 0, p->kv_heads};
    const struct range first_head = {0, p->batch, 0, 1};
    const bool backward = p->operation == CLATTN_BACKWARD;
    const struct reference reference = reference_of(p, &in->options, precision);

    answers->made =
        make_part(layer, in, &reference, whole ? all : last_batch, true, whole && backward,
                  answers) &&
        (whole || !backward || make_part(layer, in, &reference, first_head, false, true, answers));
    return answers->made;
}
