/* The results of a layer. Double precision for all of a small one; of others for y, dx and the
 * gradient of the context in one batch, and for the parameters' gradients of one kv head in all
 * batches.
 *
 * The bound: a layer's errors go through several products, where bounds for the worst case would
 * excuse any result. So it is computed twice, the second time with rounding errors put in at random
 * (layer_math.h), and a result may be off by ten times the root of the mean square that the two
 * differ by, in its row and in the tensor. */
#include "bench/judge/values.h"
#include "bench/verify/layer_math.h"
#include "bench/verify/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_FLOPS 4e8 /* Up to here all of a layer is computed. */
#define TIMES 10.0

/* The answers while they are made. */
struct making {
    struct layer_data layer_data;
    const struct job *job;
    struct layer_math exact, rounded;
    struct case_answers *answers;
    size_t room;
};

/* ---- answers --------------------------------------------------------------------------------- */

static bool reserve(struct making *m, size_t count, struct message *why)
{
    struct case_answers *answers = m->answers;

    if (answers->count + count > m->room) {
        m->room = answers->count + count;
        struct case_answer *grown = realloc(answers->list, m->room * sizeof *grown);
        if (grown == NULL)
            return message_set(why, "no memory for %zu right results", m->room);
        answers->list = grown;
    }
    return true;
}

static double mean_square(const double *a, const double *b, size_t count)
{
    double sum = 0.0;

    for (size_t n = 0; n < count; n++)
        sum += (a[n] - b[n]) * (a[n] - b[n]);
    return count > 0 ? sum / (double)count : 0.0;
}

/* Where element (row, column) of a matrix lies in the output. */
typedef size_t place_of(const struct making *m, enum input input, size_t row, size_t column);

static bool add(struct making *m, enum input input, enum output output, place_of *place,
                const struct matrix *exact, const struct matrix *rounded, struct message *why)
{
    const clattn_dtype dtype = m->job->layer.attention.dtype;
    const double all = mean_square(exact->at, rounded->at, exact->rows * exact->columns);

    if (!reserve(m, exact->rows * exact->columns, why))
        return false;
    for (size_t n = 0; n < exact->rows; n++) {
        const double *want = exact->at + n * exact->columns;
        const double row = mean_square(want, rounded->at + n * exact->columns, exact->columns);
        for (size_t d = 0; d < exact->columns; d++)
            m->answers->list[m->answers->count++] = (struct case_answer){
                .output = output,
                .place = place(m, input, n, d),
                .want = want[d],
                .bound = TIMES * sqrt(row + all) + value_roundoff(dtype) * fabs(want[d]) +
                         value_tiny(dtype)};
    }
    return true;
}

/* ---- where they belong ----------------------------------------------------------------------- */

static enum output output_of(enum input input)
{
    return input == INPUT_DY ? OUTPUT_Y : layer_gradient(input);
}

/* Rows (batch, seq) of the part. */
static size_t place_row(const struct making *m, enum input input, size_t row, size_t column)
{
    const struct view view = case_output_view(m->job, output_of(input));
    const size_t seq = view.size[2];

    return view_place(&view, m->exact.part.batch + row / seq, 0, row % seq, column);
}

/* A parameter as (columns of the product, columns of what is multiplied); of W_O the latter are the
 * part's. */
static size_t place_parameter(const struct making *m, enum input input, size_t row, size_t column)
{
    const struct parameter parameter = layer_parameter(&m->job->layer, input);
    size_t first = 0, count;

    if (input != INPUT_B_O)
        layer_math_columns(&m->exact, input, &first, &count);
    if (input == INPUT_W_O)
        column += first;
    else
        row += first;
    return parameter.offset + view_place(&parameter.view, 0, 0, row, column);
}

/* ---- results --------------------------------------------------------------------------------- */

/* A result computed twice. */
struct pair {
    struct matrix exact, rounded;
};

static void close_pair(struct pair *pair)
{
    matrix_close(&pair->exact);
    matrix_close(&pair->rounded);
}

/* Adds a times the weights to rows of an output, which are opened where they are not. */
static bool add_product(struct layer_math *math, struct matrix *rows, const struct matrix *a,
                        enum input weights, bool transposed, struct message *why)
{
    struct matrix w = {.at = NULL};
    const bool ok = layer_math_parameter(math, weights, transposed, &w, why) &&
                    (rows->at != NULL || matrix_open(rows, a->rows, w.columns, why));

    if (ok)
        layer_math_multiply(math, rows, a, &w);
    matrix_close(&w);
    return ok;
}

static bool make_y(struct layer_math *math, struct matrix *y, struct message *why)
{
    struct matrix bias = {.at = NULL};
    const bool ok = add_product(math, y, &math->o, INPUT_W_O, true, why) &&
                    layer_math_parameter(math, INPUT_B_O, true, &bias, why);

    for (size_t n = 0; ok && bias.at != NULL && n < y->rows * y->columns; n++)
        y->at[n] += bias.at[n % y->columns];
    matrix_close(&bias);
    return ok;
}

/* Whether k, or v, is made of that input. */
static bool feeds(const clattn_multihead *layer, enum input input, enum input weights)
{
    static const enum input of[2][3] = {{[CLATTN_SELF] = INPUT_X,
                                         [CLATTN_CROSS] = INPUT_CONTEXT,
                                         [CLATTN_SEPARATE] = INPUT_CONTEXT},
                                        {[CLATTN_SELF] = INPUT_X,
                                         [CLATTN_CROSS] = INPUT_CONTEXT,
                                         [CLATTN_SEPARATE] = INPUT_VALUES}};

    return weights == INPUT_W_Q ? input == INPUT_X
                                : of[weights == INPUT_W_V][layer->source] == input;
}

/* The gradient of x, the context or the values. */
static bool make_input_gradient(struct layer_math *math, enum input input, struct matrix *to,
                                struct message *why)
{
    const struct matrix *gradients[] = {&math->dq, &math->dk, &math->dv};

    for (int n = 0; n < 3; n++)
        if (feeds(math->layer, input, (enum input)(INPUT_W_Q + n)) &&
            !add_product(math, to, gradients[n], (enum input)(INPUT_W_Q + n), false, why))
            return false;
    return true;
}

static bool make_rows(struct layer_math *math, enum input input, struct matrix *to,
                      struct message *why)
{
    return input == INPUT_DY ? make_y(math, to, why) : make_input_gradient(math, input, to, why);
}

/* What a parameter's gradient is the product of: the product's columns and what was multiplied. */
static void find_factors(const struct layer_math *math, enum input weights,
                         const struct matrix **columns, const struct matrix **multiplied)
{
    const struct matrix *context = math->context.at != NULL ? &math->context : &math->x;
    const struct matrix *values = math->values.at != NULL ? &math->values : context;

    *columns = weights == INPUT_W_Q   ? &math->dq
               : weights == INPUT_W_K ? &math->dk
               : weights == INPUT_W_V ? &math->dv
                                      : &math->dy;
    *multiplied = weights == INPUT_W_Q   ? &math->x
                  : weights == INPUT_W_K ? context
                  : weights == INPUT_W_V ? values
                                         : &math->o;
}

/* The gradient of a weight matrix, or of a bias. */
static bool make_parameter_gradient(struct layer_math *math, enum input input, struct matrix *to,
                                    struct message *why)
{
    const bool bias = input >= INPUT_B_Q;
    const struct matrix *columns, *multiplied;
    struct matrix ones = {.at = NULL};

    find_factors(math, bias ? (enum input)(input - INPUT_B_Q + INPUT_W_Q) : input, &columns,
                 &multiplied);
    bool ok = matrix_open(to, columns->columns, bias ? 1 : multiplied->columns, why);
    if (ok && bias) {
        ok = matrix_open(&ones, columns->rows, 1, why);
        for (size_t n = 0; ok && n < ones.rows; n++)
            ones.at[n] = 1.0;
    }
    if (ok)
        layer_math_multiply_transposed(math, to, columns, bias ? &ones : multiplied);
    matrix_close(&ones);
    return ok;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static bool add_result(struct making *m, enum input input, struct message *why)
{
    const bool rows = input <= INPUT_VALUES || input == INPUT_DY;
    bool (*make)(struct layer_math *, enum input, struct matrix *, struct message *) =
        rows ? make_rows : make_parameter_gradient;
    const enum output output =
        rows ? output_of(input) : layer_gradient(layer_parameter(&m->job->layer, input).input);
    struct pair pair = {.exact = {.at = NULL}};
    const bool ok =
        make(&m->exact, input, &pair.exact, why) && make(&m->rounded, input, &pair.rounded, why) &&
        add(m, input, output, rows ? place_row : place_parameter, &pair.exact, &pair.rounded, why);

    close_pair(&pair);
    return ok;
}

static bool is_there(const struct making *m, enum input input)
{
    if (input <= INPUT_VALUES || input == INPUT_DY)
        return case_has_output(m->job, output_of(input));
    return m->job->problem.operation == CLATTN_BACKWARD &&
           layer_parameter(&m->job->layer, input).view.extent > 0;
}

static bool make_part(struct making *m, struct layer_part part, bool rows, bool parameters,
                      struct message *why)
{
    m->exact =
        (struct layer_math){.layer_data = &m->layer_data, .layer = &m->job->layer, .part = part};
    m->rounded = m->exact;
    m->rounded.rounded = true;
    m->rounded.random = 1;
    bool ok = layer_math_run(&m->exact, why) && layer_math_run(&m->rounded, why);
    for (enum input n = INPUT_X; ok && n <= INPUT_DY; n++)
        if ((n <= INPUT_VALUES || n == INPUT_DY ? rows : parameters) && is_there(m, n))
            ok = add_result(m, n, why);
    layer_math_release(&m->rounded);
    layer_math_release(&m->exact);
    return ok;
}

static bool make_answers(const struct attention_case *attention, enum precision precision,
                         struct case_answers *answers, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;
    const struct layer_part all = {0, p->batch, 0, p->kv_heads};
    const struct layer_part last_batch = {p->batch > 0 ? p->batch - 1 : 0, p->batch, 0,
                                          p->kv_heads};
    const struct layer_part first_head = {0, p->batch, 0, 1};
    struct making m = {.job = &attention->job, .answers = answers};
    const bool whole = job_flops(&attention->job) <= WHOLE_FLOPS;

    layer_data_open(&m.layer_data, attention, precision);
    bool ok = make_part(&m, whole ? all : last_batch, true, whole, why);
    if (ok && !whole && p->operation == CLATTN_BACKWARD)
        ok = make_part(&m, first_head, false, true, why);
    answers->made = ok;
    return ok;
}

bool check_layer(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why)
{
    struct case_answers own = {.list = NULL};
    const enum precision kept =
        precision == PRECISION_PEER ? PRECISION_SINGLE : precision; /* alike */
    struct case_answers *answers = attention->answers != NULL ? &attention->answers[kept] : &own;
    const bool ok = answers->made || make_answers(attention, precision, answers, why);

    for (size_t n = 0; ok && n < answers->count; n++) {
        const struct case_answer *answer = &answers->list[n];
        const struct view view = case_output_view(&attention->job, answer->output);
        if (results->out[answer->output] != NULL)
            worst_add(worst, value_get(view.dtype, results->out[answer->output], answer->place),
                      answer->want, answer->bound);
    }
    free(own.list);
    return ok;
}
