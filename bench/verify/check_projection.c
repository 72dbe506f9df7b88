/* Rows of a projection, from the formula in clattn/problem.h. */
#include "bench/verify/check_row.h"
#include "cli/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 8 };

struct projection {
    struct check check;
    const void *y;
    struct view y_view;
    double *x; /* A row of all heads, one after the other. */
    struct worst *worst;
};

static void load_row(const struct projection *c, size_t b, size_t i)
{
    const struct view *view = &c->check.in[INPUT_Q];
    const void *data = c->check.attention->in[INPUT_Q].data;
    double *to = c->x;

    for (size_t h = 0; h < view->size[1]; h++)
        for (size_t d = 0; d < view->size[3]; d++)
            *to++ = value_get(view->dtype, data, view_place(view, b, h, i, d));
}

/* Of the row in x and column (g, e) of the weights. */
static struct check_dot multiply(const struct projection *c, size_t g, size_t e)
{
    const struct view *view = &c->check.in[INPUT_K];
    const void *data = c->check.attention->in[INPUT_K].data;
    const struct arithmetic *a = &c->check.arithmetic;
    const double *x = c->x;
    struct check_dot dot = {.sum = 0.0};

    for (size_t h = 0; h < view->size[0]; h++)
        for (size_t d = 0; d < view->size[1]; d++) {
            const double term = *x++ * value_get(view->dtype, data, view_place(view, h, d, g, e));
            dot.sum += term;
            dot.magnitude += fabs(term);
            dot.squares += term * term;
        }
    dot.slack = check_growth(a, view->size[0] * view->size[1]) *
                check_reach(a, dot.sum, dot.magnitude, dot.squares);
    return dot;
}

/* What the output held before. */
static double held(const clattn_problem *p)
{
    unsigned char bytes[sizeof(float)];

    memset(bytes, CASE_HELD, sizeof bytes);
    return p->accumulate ? value_get(p->dtype, bytes, 0) : 0.0;
}

static void check_row(const struct projection *c, size_t b, size_t i)
{
    const clattn_problem *p = &c->check.attention->job.problem;
    const struct arithmetic *a = &c->check.arithmetic;
    const struct view *bias = &c->check.in[INPUT_BIAS];

    load_row(c, b, i);
    for (size_t g = 0; g < p->heads; g++)
        for (size_t e = 0; e < p->dim_v; e++) {
            const struct check_dot dot = multiply(c, g, e);
            const double before = held(p);
            const double more =
                p->bias ? value_get(bias->dtype, c->check.attention->in[INPUT_BIAS].data,
                                    view_place(bias, 0, g, 0, e))
                        : 0.0;
            const double want = dot.sum + more + before;
            const double slack =
                dot.slack + 4.0 * a->value * (fabs(dot.sum) + fabs(more) + fabs(before));
            worst_add(c->worst, value_get(p->dtype, c->y, view_place(&c->y_view, b, g, i, e)), want,
                      1.01 * (slack + check_storing(p->dtype, want) + CHECK_TINY));
        }
}

bool check_projection(const struct attention_case *attention, const struct results *results,
                      enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;
    const size_t columns = p->kv_heads * p->dim_qk, all = p->batch * p->seq_q;
    const double row_work = (double)columns * (double)p->heads * (double)p->dim_v;
    const size_t rows = check_affordable(all, row_work, FEWEST_ROWS);
    struct projection c = {.y = results->out[OUTPUT_O],
                           .y_view = case_output_view(&attention->job, OUTPUT_O),
                           .x = case_allocate(columns, sizeof *c.x, why),
                           .worst = worst};

    const bool ok = c.x != NULL && check_begin(&c.check, attention, precision, why);
    for (size_t n = 0; ok && n < rows; n++) {
        const size_t row = check_spread(n, rows, all);
        check_row(&c, row / p->seq_q, row % p->seq_q);
    }
    check_end(&c.check);
    free(c.x);
    return ok;
}
