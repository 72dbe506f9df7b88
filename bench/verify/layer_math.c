#include "bench/verify/layer_math.h"
#include "bench/judge/dropout.h"
#include "bench/judge/values.h"
#include "bench/verify/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void layer_data_open(struct layer_data *layer_data, const struct attention_case *attention,
                     enum precision precision)
{
    layer_data->attention = attention;
    for (int n = 0; n < INPUT_COUNT; n++)
        layer_data->in[n] = case_input_view(&attention->job, (enum input)n);
    layer_data->options = sample_inputs(attention);
    layer_data->reference = reference_of(&attention->job.problem, &layer_data->options, precision);
}

/* ---- matrices -------------------------------------------------------------------------------- */

bool matrix_open(struct matrix *matrix, size_t rows, size_t columns, struct message *why)
{
    *matrix = (struct matrix){.at = case_allocate(rows * columns, sizeof *matrix->at, why),
                              .rows = rows,
                              .columns = columns};
    if (matrix->at != NULL)
        memset(matrix->at, 0, rows * columns * sizeof *matrix->at);
    return matrix->at != NULL;
}

void matrix_close(struct matrix *matrix)
{
    free(matrix->at);
    *matrix = (struct matrix){.at = NULL};
}

static double *row_of(const struct matrix *matrix, size_t row)
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

/* ---- rounding -------------------------------------------------------------------------------- */

/* Of variance 1; xorshift64. */
static double chance(struct layer_math *math)
{
    math->random ^= math->random << 13;
    math->random ^= math->random >> 7;
    math->random ^= math->random << 17;
    return sqrt(12.0) * ((double)(math->random >> 11) * 0x1p-53 - 0.5);
}

/* A sum of n terms goes wrong by about u sqrt(n) times the root of its terms' squares when they are
 * added one by one; `norms` is that sqrt(n) times the root. Then it is stored. */
static void round_row(struct layer_math *math, double *row, size_t count, double norms)
{
    const struct arithmetic *a = &math->layer_data->reference.arithmetic;
    const double stored = fmax(value_roundoff(math->layer->attention.dtype),
                               a->precision == PRECISION_HALF ? a->value : 0.0);

    for (size_t n = 0; math->rounded && n < count; n++)
        row[n] += a->sum * norms * chance(math) + stored * fabs(row[n]) * chance(math);
}

/* What rounding an operand to the dtype, of standard precision, multiplies it with. */
static double rounded_operand(struct layer_math *math)
{
    return math->rounded ? 1.0 + math->layer_data->reference.arithmetic.weight * chance(math) : 1.0;
}

/* The root of the mean of the columns' squares. */
static double column_norm(const struct matrix *m)
{
    return m->columns > 0 ? sqrt(squares(m->at, m->rows * m->columns) / (double)m->columns) : 0.0;
}

enum { BLOCK = 64 };

void layer_math_multiply(struct layer_math *math, struct matrix *c, const struct matrix *a,
                         const struct matrix *b)
{
    const double norm = column_norm(b);

    for (size_t begin = 0; begin < b->rows; begin += BLOCK) {
        const size_t end = begin + BLOCK < b->rows ? begin + BLOCK : b->rows;
        for (size_t m = 0; m < a->rows; m++)
            for (size_t n = begin; n < end; n++)
                add_row(row_of(c, m), row_of(b, n), row_of(a, m)[n], b->columns);
    }
    for (size_t m = 0; m < a->rows; m++)
        round_row(math, row_of(c, m), c->columns, sqrt(squares(row_of(a, m), a->columns)) * norm);
}

void layer_math_multiply_transposed(struct layer_math *math, struct matrix *c,
                                    const struct matrix *a, const struct matrix *b)
{
    const double norm = column_norm(a) * column_norm(b);

    for (size_t begin = 0; begin < a->columns; begin += BLOCK) {
        const size_t end = begin + BLOCK < a->columns ? begin + BLOCK : a->columns;
        for (size_t n = 0; n < a->rows; n++)
            for (size_t m = begin; m < end; m++)
                add_row(row_of(c, m), row_of(b, n), row_of(a, n)[m], b->columns);
    }
    for (size_t m = 0; m < c->rows; m++)
        round_row(math, row_of(c, m), c->columns, norm);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static double element(const struct layer_math *math, enum input input, const struct view *view,
                      size_t place)
{
    return value_get(view->dtype, math->layer_data->attention->in[input].data, place);
}

static bool load_rows(const struct layer_math *math, enum input input, struct matrix *matrix,
                      struct message *why)
{
    const struct view *view = &math->layer_data->in[input];
    const struct layer_part *part = &math->part;
    const size_t seq = view->size[2];

    if (view->extent == 0)
        return true;
    if (!matrix_open(matrix, (part->batch_end - part->batch) * seq, view->size[3], why))
        return false;
    for (size_t n = 0; n < matrix->rows; n++)
        for (size_t d = 0; d < matrix->columns; d++)
            row_of(matrix, n)[d] =
                element(math, input, view, view_place(view, part->batch + n / seq, 0, n % seq, d));
    return true;
}

void layer_math_columns(const struct layer_math *math, enum input which, size_t *first,
                        size_t *count)
{
    const clattn_problem *p = &math->layer->attention;
    const size_t group = p->heads / p->kv_heads, heads = math->part.head_end - math->part.head;
    const bool of_queries = which == INPUT_W_Q || which == INPUT_B_Q || which == INPUT_W_O;
    const size_t dim =
        which == INPUT_W_V || which == INPUT_B_V || which == INPUT_W_O ? p->dim_v : p->dim_qk;

    *first = math->part.head * (of_queries ? group : 1) * dim;
    *count = heads * (of_queries ? group : 1) * dim;
}

bool layer_math_parameter(const struct layer_math *math, enum input which, bool transposed,
                          struct matrix *matrix, struct message *why)
{
    const struct parameter parameter = layer_parameter(math->layer, which);
    const struct view *view = &parameter.view;
    size_t begin[2] = {0, 0}, count[2] = {view->size[2], view->size[3]};

    if (view->extent == 0)
        return true;
    if (which == INPUT_W_O)
        layer_math_columns(math, which, &begin[1], &count[1]);
    else if (which != INPUT_B_O)
        layer_math_columns(math, which, &begin[0], &count[0]);
    if (!matrix_open(matrix, count[transposed], count[!transposed], why))
        return false;
    for (size_t n = 0; n < count[0]; n++)
        for (size_t d = 0; d < count[1]; d++)
            *(transposed ? row_of(matrix, d) + n : row_of(matrix, n) + d) =
                element(math, parameter.input, view,
                        parameter.offset + view_place(view, 0, 0, begin[0] + n, begin[1] + d));
    return true;
}

/* ---- projections ----------------------------------------------------------------------------- */

static bool project(struct layer_math *math, struct matrix *y, const struct matrix *x,
                    enum input weights, enum input bias, struct message *why)
{
    struct matrix w = {.at = NULL}, b = {.at = NULL};
    const bool ok = layer_math_parameter(math, weights, true, &w, why) &&
                    layer_math_parameter(math, bias, true, &b, why) &&
                    matrix_open(y, x->rows, w.columns, why);

    for (size_t n = 0; ok && b.at != NULL && n < y->rows; n++)
        add_row(row_of(y, n), b.at, 1.0, y->columns);
    if (ok)
        layer_math_multiply(math, y, x, &w);
    matrix_close(&b);
    matrix_close(&w);
    return ok;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of one head: k and v of a batch by columns, so that loops go along the keys; weights and
 * gradients of a row. */
struct head {
    struct matrix k, v, room;
    double *p, *slope, *dp;         /* Of a row: weights, softcap's derivative, dot(do, v). */
    double *p_squares, *ds_squares; /* Sums over all rows. */
    double k_norm, v_norm, q_norm, do_norm; /* Of columns. */
    size_t batch, h, kv_head;               /* Counted in the part. */
};

/* Columns [first, first + count) of some rows, as rows. */
static void turn(struct matrix *to, const struct matrix *from, size_t first_row, size_t first)
{
    for (size_t n = 0; n < to->columns; n++)
        for (size_t d = 0; d < to->rows; d++)
            row_of(to, d)[n] = row_of(from, first_row + n)[first + d];
}

static double part_norm(const struct matrix *m, size_t first_row, size_t rows, size_t first,
                        size_t columns)
{
    double sum = 0.0;

    for (size_t n = 0; n < rows; n++)
        sum += squares(row_of(m, first_row + n) + first, columns);
    return sqrt(sum / (double)columns);
}

static bool open_head(struct head *head, const clattn_problem *p, struct message *why)
{
    const bool ok = matrix_open(&head->k, p->dim_qk, p->seq_kv, why) &&
                    matrix_open(&head->v, p->dim_v, p->seq_kv, why) &&
                    matrix_open(&head->room, 5, p->seq_kv, why);

    if (ok) {
        head->p = row_of(&head->room, 0);
        head->slope = row_of(&head->room, 1);
        head->dp = row_of(&head->room, 2);
        head->p_squares = row_of(&head->room, 3);
        head->ds_squares = row_of(&head->room, 4);
    }
    return ok;
}

static void close_head(struct head *head)
{
    matrix_close(&head->k);
    matrix_close(&head->v);
    matrix_close(&head->room);
}

static void enter_head(struct layer_math *math, struct head *head, size_t batch, size_t h)
{
    const clattn_problem *p = &math->layer->attention;

    head->batch = batch;
    head->h = h;
    head->kv_head = h / (p->heads / p->kv_heads);
    turn(&head->k, &math->k, batch * p->seq_kv, head->kv_head * p->dim_qk);
    turn(&head->v, &math->v, batch * p->seq_kv, head->kv_head * p->dim_v);
    head->k_norm =
        part_norm(&math->k, batch * p->seq_kv, p->seq_kv, head->kv_head * p->dim_qk, p->dim_qk);
    head->v_norm =
        part_norm(&math->v, batch * p->seq_kv, p->seq_kv, head->kv_head * p->dim_v, p->dim_v);
    head->q_norm = part_norm(&math->q, batch * p->seq_q, p->seq_q, h * p->dim_qk, p->dim_qk);
    if (math->d_o.at != NULL)
        head->do_norm = part_norm(&math->d_o, batch * p->seq_q, p->seq_q, h * p->dim_v, p->dim_v);
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
static void weigh(struct layer_math *math, struct head *head, const struct query *query,
                  const double *q)
{
    const clattn_problem *p = &math->layer->attention;
    const struct reference *r = &math->layer_data->reference;
    const double q_norm = sqrt(squares(q, p->dim_qk));
    const double norms =
        fabs(r->scale) * q_norm * head->k_norm * sqrt((double)p->dim_qk / (double)(p->seq_kv + 1));
    double maximum = reference_sink(r, query), total = 0.0;

    memset(head->p, 0, p->seq_kv * sizeof(double));
    for (size_t d = 0; d < p->dim_qk; d++)
        add_row(head->p, row_of(&head->k, d), r->scale * q[d], p->seq_kv);
    round_row(math, head->p, p->seq_kv, norms);
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
        if (math->rounded && x > -(double)INFINITY)
            head->p[j] *= 1.0 + r->arithmetic.value * (2.0 + fabs(x)) * chance(math);
        total += head->p[j];
    }
    total += exp(reference_sink(r, query) - maximum);
    for (size_t j = 0; j < p->seq_kv; j++)
        head->p[j] /= total;
}

/* What dropout multiplies the weight of a pair with. */
static double kept(const struct layer_math *math, const struct query *query, size_t j)
{
    const struct reference *r = &math->layer_data->reference;

    return reference_dropout_factor(r->problem, r->view, query->b, query->h, query->i, j);
}

static void attend(struct layer_math *math, struct head *head, const struct query *query, size_t n)
{
    const clattn_problem *p = &math->layer->attention;
    double *o = row_of(&math->o, n) + head->h * p->dim_v;

    weigh(math, head, query, row_of(&math->q, n) + head->h * p->dim_qk);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const double weight = head->p[j] * kept(math, query, j);
        if (weight != 0.0)
            add_row(o, row_of(&math->v, head->batch * p->seq_kv + j) + head->kv_head * p->dim_v,
                    weight * rounded_operand(math), p->dim_v);
    }
    round_row(math, o, p->dim_v, sqrt(squares(head->p, p->seq_kv)) * head->v_norm);
}

/* dot(do, v) of all keys. */
static void multiply_values(struct head *head, const double *d_o, size_t dim)
{
    memset(head->dp, 0, head->v.columns * sizeof *head->dp);
    for (size_t d = 0; d < dim; d++)
        add_row(head->dp, row_of(&head->v, d), d_o[d], head->v.columns);
}

static void derive(struct layer_math *math, struct head *head, const struct query *query, size_t n)
{
    const clattn_problem *p = &math->layer->attention;
    const double *q = row_of(&math->q, n) + head->h * p->dim_qk;
    const double *d_o = row_of(&math->d_o, n) + head->h * p->dim_v;
    const double *o = row_of(&math->o, n) + head->h * p->dim_v;
    const double do_norm = sqrt(squares(d_o, p->dim_v)), scale = math->layer_data->reference.scale;
    double *dq = row_of(&math->dq, n) + head->h * p->dim_qk;
    double delta = 0.0, all_squares = 0.0;

    for (size_t d = 0; d < p->dim_v; d++)
        delta += d_o[d] * o[d];
    multiply_values(head, d_o, p->dim_v);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const size_t key = head->batch * p->seq_kv + j;
        const double factor = kept(math, query, j);
        double ds = head->p[j] * (factor * head->dp[j] - delta) * head->slope[j];
        if (head->p[j] == 0.0)
            continue;
        round_row(math, &ds, 1, head->p[j] * do_norm * head->v_norm / sqrt((double)p->seq_kv));
        all_squares += ds * ds;
        head->ds_squares[j] += ds * ds;
        head->p_squares[j] += head->p[j] * head->p[j];
        ds *= rounded_operand(math);
        add_row(dq, row_of(&math->k, key) + head->kv_head * p->dim_qk, scale * ds, p->dim_qk);
        add_row(row_of(&math->dk, key) + head->kv_head * p->dim_qk, q, scale * ds, p->dim_qk);
        add_row(row_of(&math->dv, key) + head->kv_head * p->dim_v, d_o,
                head->p[j] * factor * rounded_operand(math), p->dim_v);
    }
    round_row(math, dq, p->dim_qk, fabs(scale) * sqrt(all_squares) * head->k_norm);
}

static void leave_head(struct layer_math *math, const struct head *head)
{
    const clattn_problem *p = &math->layer->attention;

    for (size_t j = 0; math->dk.at != NULL && j < p->seq_kv; j++) {
        const size_t key = head->batch * p->seq_kv + j;
        round_row(math, row_of(&math->dk, key) + head->kv_head * p->dim_qk, p->dim_qk,
                  fabs(math->layer_data->reference.scale) * sqrt(head->ds_squares[j]) *
                      head->q_norm);
        round_row(math, row_of(&math->dv, key) + head->kv_head * p->dim_v, p->dim_v,
                  sqrt(head->p_squares[j]) * head->do_norm);
    }
}

static bool attend_all(struct layer_math *math, struct message *why)
{
    const clattn_problem *p = &math->layer->attention;
    const size_t group = p->heads / p->kv_heads;
    const size_t heads = (math->part.head_end - math->part.head) * group;
    struct head head = {.dp = NULL};
    const bool ok = open_head(&head, p, why);

    for (size_t b = 0; ok && b < math->part.batch_end - math->part.batch; b++)
        for (size_t h = 0; h < heads; h++) {
            enter_head(math, &head, b, h);
            for (size_t i = 0; i < p->seq_q; i++) {
                const struct query query =
                    reference_query(&math->layer_data->reference, math->part.batch + b,
                                    math->part.head * group + h, i);
                attend(math, &head, &query, b * p->seq_q + i);
                if (math->d_o.at != NULL)
                    derive(math, &head, &query, b * p->seq_q + i);
            }
            leave_head(math, &head);
        }
    close_head(&head);
    return ok;
}

/* ---------------------------------------------------------------------------------------------- */

static const struct matrix *first_there(const struct matrix *a, const struct matrix *b,
                                        const struct matrix *c)
{
    return a->at != NULL ? a : b->at != NULL ? b : c;
}

static bool open_gradients(struct layer_math *math, struct message *why)
{
    struct matrix w_o = {.at = NULL};
    const bool ok = layer_math_parameter(math, INPUT_W_O, false, &w_o, why) &&
                    matrix_open(&math->d_o, math->dy.rows, w_o.columns, why) &&
                    matrix_open(&math->dq, math->q.rows, math->q.columns, why) &&
                    matrix_open(&math->dk, math->k.rows, math->k.columns, why) &&
                    matrix_open(&math->dv, math->v.rows, math->v.columns, why);

    if (ok)
        layer_math_multiply(math, &math->d_o, &math->dy, &w_o);
    matrix_close(&w_o);
    return ok;
}

bool layer_math_run(struct layer_math *math, struct message *why)
{
    const clattn_problem *p = &math->layer->attention;

    if (!load_rows(math, INPUT_X, &math->x, why) ||
        !load_rows(math, INPUT_CONTEXT, &math->context, why) ||
        !load_rows(math, INPUT_VALUES, &math->values, why) ||
        !load_rows(math, INPUT_DY, &math->dy, why))
        return false;
    const struct matrix *keys = first_there(&math->context, &math->x, &math->x);
    const struct matrix *values = first_there(&math->values, &math->context, &math->x);
    if (!project(math, &math->q, &math->x, INPUT_W_Q, INPUT_B_Q, why) ||
        !project(math, &math->k, keys, INPUT_W_K, INPUT_B_K, why) ||
        !project(math, &math->v, values, INPUT_W_V, INPUT_B_V, why) ||
        !matrix_open(&math->o, math->q.rows, math->q.columns / p->dim_qk * p->dim_v, why))
        return false;
    return (math->dy.at == NULL || open_gradients(math, why)) && attend_all(math, why);
}

void layer_math_release(struct layer_math *math)
{
    struct matrix *const all[] = {&math->x,   &math->context, &math->values, &math->dy,
                                  &math->q,   &math->k,       &math->v,      &math->o,
                                  &math->d_o, &math->dq,      &math->dk,     &math->dv};

    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        matrix_close(all[n]);
}
