#include "bench/verify/check_row.h"
#include "cli/values.h"

#include <clattn/dropout.h>
#include <math.h>
#include <stdlib.h>

static struct arithmetic arithmetic_of(enum precision precision, clattn_dtype dtype)
{
    if (precision == PRECISION_SINGLE)
        return (struct arithmetic){.value = 0x1p-24, .sum = 0x1p-24};
    if (dtype == CLATTN_BF16)
        return (struct arithmetic){.value = 0x1p-8, .sum = 0x1p-24, .half = true};
    return (struct arithmetic){.value = 0x1p-11, .sum = 0x1p-11, .half = true};
}

/* Dropout's mask of all pairs. */
static bool find_kept(struct check *check, struct message *why)
{
    const clattn_problem *p = &check->attention->job.problem;
    const size_t rows = p->batch * p->heads * p->seq_q;

    if (p->dropout == 0.0f)
        return true;
    check->kept = case_allocate(rows * p->seq_kv, 1, why);
    return check->kept != NULL && (clattn_dropout_mask_host(p, CASE_DROPOUT_SEED, 0, 0, rows,
                                                            check->kept) == CLATTN_SUCCESS ||
                                   message_set(why, "clattn_dropout_mask_host failed"));
}

bool check_begin(struct check *check, const struct attention_case *attention,
                 enum precision precision, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;

    *check =
        (struct check){.attention = attention,
                       .arithmetic = arithmetic_of(precision, p->dtype),
                       .scale = isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : (double)p->scale};
    for (int n = 0; n < INPUT_COUNT; n++)
        check->in[n] = case_input_view(&attention->job, (enum input)n);
    return find_kept(check, why);
}

void check_end(struct check *check)
{
    free(check->kept);
    check->kept = NULL;
}

double check_kept(const struct check *check, const struct check_row *row, size_t j)
{
    const clattn_problem *p = &check->attention->job.problem;

    if (check->kept == NULL)
        return 1.0;
    return check->kept[((row->b * p->heads + row->h) * p->seq_q + row->i) * p->seq_kv + j] != 0
               ? 1.0 / (1.0 - (double)p->dropout)
               : 0.0;
}

double check_sink(const struct check *check, size_t h)
{
    return ((const float *)check->attention->in[INPUT_SINKS].data)[h];
}

double check_growth(const struct arithmetic *arithmetic, size_t n)
{
    return (6.0 * sqrt((double)n) + 4.0) * arithmetic->sum;
}

double check_reach(const struct arithmetic *arithmetic, double sum, double magnitude,
                   double squares)
{
    return arithmetic->half ? fmin(magnitude, fabs(sum) + 3.0 * sqrt(squares)) : magnitude;
}

double check_part(const struct arithmetic *arithmetic, double error)
{
    return arithmetic->half ? error * error : error;
}

double check_parts_sum(const struct arithmetic *arithmetic, double parts)
{
    return arithmetic->half ? sqrt(parts) : parts;
}

double check_storing(clattn_dtype dtype, double value)
{
    return value_roundoff(dtype) * fabs(value) + value_tiny(dtype);
}

size_t check_affordable(size_t all, double work, size_t fewest)
{
    const double affordable = fmax(CHECK_WORK / work, (double)fewest);

    return (double)all <= affordable ? all : (size_t)affordable;
}

size_t check_spread(size_t n, size_t count, size_t all)
{
    return count == all ? n : (size_t)((double)n / (double)(count - 1) * (double)(all - 1));
}

struct check_dot check_inputs_dot(const struct check *check, enum input x, size_t x_place,
                                  enum input y, size_t y_place, size_t count)
{
    const struct view *x_view = &check->in[x], *y_view = &check->in[y];
    const void *x_data = check->attention->in[x].data, *y_data = check->attention->in[y].data;
    struct check_dot dot = {.sum = 0.0};

    for (size_t d = 0; d < count; d++) {
        const double term = view_get(x_view, x_data, x_place + d * x_view->stride[3]) *
                            view_get(y_view, y_data, y_place + d * y_view->stride[3]);
        dot.sum += term;
        dot.magnitude += fabs(term);
        dot.squares += term * term;
    }
    dot.slack = check_growth(&check->arithmetic, count) *
                check_reach(&check->arithmetic, dot.sum, dot.magnitude, dot.squares);
    return dot;
}

/* The batch's count in use: the whole, or what `lengths` says, clamped. */
static double in_use(const struct block *lengths, size_t b, size_t whole)
{
    if (lengths->data == NULL)
        return (double)whole;
    const double length = ((const cl_int *)lengths->data)[b];
    return length < 0.0 ? 0.0 : length > (double)whole ? (double)whole : length;
}

struct check_row check_row_locate(const struct check *check, size_t index)
{
    const struct block *in = check->attention->in;
    const clattn_problem *p = &check->attention->job.problem;
    struct check_row row = {
        .b = index / p->seq_q / p->heads, .h = index / p->seq_q % p->heads, .i = index % p->seq_q};

    row.queries = in_use(&in[INPUT_Q_LENGTHS], row.b, p->seq_q);
    row.keys = in_use(&in[INPUT_KV_LENGTHS], row.b, p->seq_kv);
    row.diagonal = p->diagonal == CLATTN_TOP_LEFT       ? 0.0
                   : p->diagonal == CLATTN_BOTTOM_RIGHT ? row.keys - row.queries
                                                        : (double)p->diagonal_offset;
    return row;
}

/* In doubles: offsets near the ends of int64_t overflow nothing. */
static bool is_visible(const struct check *check, const struct check_row *row, size_t j)
{
    const clattn_problem *p = &check->attention->job.problem;
    const unsigned char *mask = check->attention->in[INPUT_MASK].data;
    const double now = (double)row->i + row->diagonal, key = (double)j;

    if ((double)row->i >= row->queries || key >= row->keys || (p->causal && key > now))
        return false;
    if (p->window_left >= 0 && key < now - (double)p->window_left)
        return false;
    if (p->window_right >= 0 && key > now + (double)p->window_right)
        return false;
    return !p->mask || mask[view_place(&check->in[INPUT_MASK], row->b, row->h, row->i, j)] != 0;
}

double check_softcap_slack(const struct arithmetic *a, double softcap, double s)
{
    return a->half ? 4.0 * a->value * fabs(s) : 16.0 * a->value * softcap;
}

void check_score_finish(const struct check *check, const struct check_row *row, size_t j,
                        struct check_score *score)
{
    const clattn_problem *p = &check->attention->job.problem;
    const struct block *in = check->attention->in;
    const struct arithmetic *a = &check->arithmetic;
    double s = score->raw, slack = score->raw_slack;

    score->derivative = 1.0;
    if (p->softcap > 0.0f) {
        const double t = tanh(s / (double)p->softcap);
        s = (double)p->softcap * t;
        slack += check_softcap_slack(a, (double)p->softcap, s);
        score->derivative = 1.0 - t * t;
    }
    score->capped = s;
    if (p->bias) {
        const double b = value_get(p->bias_dtype, in[INPUT_BIAS].data,
                                   view_place(&check->in[INPUT_BIAS], row->b, row->h, row->i, j));
        s += b;
        slack += 4.0 * a->value * (fabs(b) + fabs(s));
    }
    if (p->alibi) {
        const double slope = ((const float *)in[INPUT_SLOPES].data)[row->h];
        const double term = slope * ((double)j - (double)row->i - row->diagonal);
        s += term;
        slack += 4.0 * a->value * (fabs(term) + fabs(s));
    }
    score->s = is_visible(check, row, j) ? s : -(double)INFINITY;
    score->slack = slack;
}

struct check_score check_row_score(const struct check *check, const struct check_row *row, size_t j)
{
    const clattn_problem *p = &check->attention->job.problem;
    const struct arithmetic *a = &check->arithmetic;
    const size_t kv_head = row->h / (p->heads / p->kv_heads);
    const struct check_dot dot = check_inputs_dot(
        check, INPUT_Q, view_place(&check->in[INPUT_Q], row->b, row->h, row->i, 0), INPUT_K,
        view_place(&check->in[INPUT_K], row->b, kv_head, j, 0), p->dim_qk);
    const double s = check->scale * dot.sum;
    struct check_score score = {.raw = s,
                                .raw_slack = fabs(check->scale) * dot.slack +
                                             4.0 * a->value * fabs(s) + CHECK_TINY};

    if (a->half) /* q and k, or q times scale, are rounded */
        score.raw_slack += 2.0 * a->value * fabs(check->scale) * dot.magnitude;
    check_score_finish(check, row, j, &score);
    return score;
}
