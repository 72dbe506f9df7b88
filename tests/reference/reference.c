/* The bounds. u = 2^-24 is the error of one f32 operation, relative to its result; terms of order
 * u^2 are left out, the counts below have room for them. FLT_MIN terms allow for subnormal
 * results that a device flushes to 0.
 *
 * Raw score   scale * sum q k takes dim_qk products and sums in some order, one more rounding for
 *             scale, one for a scale that was computed, and two where log2(e) is folded in:
 *             (dim_qk + 6) u |scale| sum|q k|.
 * Softcap     cap * tanh(s / cap) has a slope of at most 1, so the error before it passes at most
 *             whole; s / cap, tanh (OpenCL: 5 ulp = 10 u) and the product add 16 u |result|.
 * Bias, ALiBi slope * (j - i - d) and two sums: 4 u (|s| + |bias| + |alibi|).
 *             Together that is the score's error e_j.
 * exp(s - m)  An error in m cancels in the quotient. The difference, its product with log2(e) and
 *             exp (4 ulp = 8 u) give, relative to the value,
 *             slack_j = expm1(e_j + (8 + 3 |s - m|) u).
 *             Rescaling in steps from maximum to maximum walks the same distance |s - m|, but
 *             pays exp's error at each step.
 * Sums        n terms with at most n additions, n / 8 rescalings of 8 u, and a division:
 *             gather = (2 n + 16) u, relative to the sum of magnitudes.
 * Quotient    o = sum e_j v_j / sum e_j is off by at most
 *             sum p_j |v_j| (slack_j + gather) + |o| (sum p_j slack_j + gather),
 *             to which storing adds half an ulp of the dtype. Weights likewise: v = 1 for one j.
 * Dropout     multiplies terms by 1 / (1 - r), which rounds three times: 3 u of them.
 * lse         m + log(sum): sum p_j slack_j + gather + 8 u (1 + |m| + |lse|). */
#include "tests/reference/reference.h"

#include "tests/reference/reference_dropout.h"
#include "tests/support/storage.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = 0x1p-24;

struct span {
    long double queries, keys, diagonal; /* exact: 64 bits of integers fit */
};

static long double clamped(const cl_int length, const size_t most)
{
    if (length < 0)
        return 0;
    return (size_t)length > most ? (long double)most : (long double)length;
}

static struct span span_of(const clattn_problem *p, const struct tensor_view *view, const size_t b)
{
    struct span span = {p->seq_q, p->seq_kv, 0};

    if (p->q_lengths)
        span.queries =
            clamped(((const cl_int *)(const void *)view->at[TENSOR_Q_LENGTHS])[b], p->seq_q);
    if (p->kv_lengths)
        span.keys =
            clamped(((const cl_int *)(const void *)view->at[TENSOR_KV_LENGTHS])[b], p->seq_kv);
    if (p->diagonal == CLATTN_BOTTOM_RIGHT)
        span.diagonal = span.keys - span.queries;
    else if (p->diagonal == CLATTN_OFFSET)
        span.diagonal = p->diagonal_offset;
    return span;
}

static double load(const clattn_problem *p, const struct tensor_view *view, const enum tensor_id id,
                   const size_t b, const size_t h, const size_t i, const size_t d)
{
    const struct tensor_shape s = tensor_shape_of(p, id);

    return value_get(s.dtype, view->at[id], tensor_index(&s, b, h, i, d));
}

double reference_distance(const clattn_problem *p, const struct tensor_view *view, const size_t b,
                          const size_t i, const size_t j)
{
    return (double)((long double)j - i - span_of(p, view, b).diagonal);
}

int reference_sees(const clattn_problem *p, const struct tensor_view *view, const size_t b,
                   const size_t h, const size_t i, const size_t j)
{
    const struct span span = span_of(p, view, b);
    const long double now = i + span.diagonal;

    if (i >= span.queries || j >= span.keys)
        return 0;
    if (p->causal && j > now)
        return 0;
    if (p->window_left != CLATTN_UNLIMITED && j < now - p->window_left)
        return 0;
    if (p->window_right != CLATTN_UNLIMITED && j > now + p->window_right)
        return 0;
    if (p->mask && view->at[TENSOR_MASK]) {
        const struct tensor_shape s = tensor_shape_of(p, TENSOR_MASK);
        if (!view->at[TENSOR_MASK][tensor_index(&s, b, h, i, j)])
            return 0;
    }
    if (p->bias && view->at[TENSOR_BIAS])
        return load(p, view, TENSOR_BIAS, b, h, i, j) != -INFINITY;
    return 1;
}

/* The score of a pair at the given point before masks; its error goes to *error. */
static double score_at(const clattn_problem *p, const struct tensor_view *view,
                       const clattn_scores point, const size_t b, const size_t h, const size_t i,
                       const size_t j, double *error)
{
    const struct tensor_shape qs = tensor_shape_of(p, TENSOR_Q), ks = tensor_shape_of(p, TENSOR_K);
    const size_t q_row = tensor_index(&qs, b, h, i, 0);
    const size_t k_row = tensor_index(&ks, b, h / (p->heads / p->kv_heads), j, 0);
    const double scale = isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : p->scale;
    double dot = 0.0, magnitude = 0.0;

    for (size_t d = 0; d < p->dim_qk; d++) {
        const double q = value_get(p->dtype, view->at[TENSOR_Q], q_row + d * qs.stride[3]);
        const double k = tensor_load(&ks, view->at[TENSOR_K], k_row + d * ks.stride[3]);
        dot += q * k;
        magnitude += fabs(q * k);
    }
    double s = scale * dot;
    *error =
        (double)(p->dim_qk + 6) * (u * fabs(scale) * magnitude + FLT_MIN * fmax(1.0, fabs(scale)));
    if (point == CLATTN_SCORES_RAW)
        return s;
    if (p->softcap > 0.0f) {
        s = p->softcap * tanh(s / p->softcap);
        *error += 16 * u * fabs(s);
    }
    if (point == CLATTN_SCORES_SOFTCAP)
        return s;
    const double bias = p->bias ? load(p, view, TENSOR_BIAS, b, h, i, j) : 0.0;
    double alibi = 0.0;
    if (p->alibi) {
        const double slope = ((const float *)(const void *)view->at[TENSOR_SLOPES])[h];
        alibi = slope * reference_distance(p, view, b, i, j);
    }
    if (p->bias || p->alibi)
        *error += 4 * u * (fabs(s) + fabs(bias) + fabs(alibi));
    return s + bias + alibi;
}

/* Scores of a row at the point asked for, if that is before the softmax. */
static void hand_out_scores(const clattn_problem *p, const struct tensor_view *view, const size_t b,
                            const size_t h, const size_t i, struct reference_row *row)
{
    for (size_t j = 0; j < p->seq_kv; j++) {
        struct bounded *out = &row->scores[j];
        *out = (struct bounded){-INFINITY, 0.0};
        if (p->scores != CLATTN_SCORES_BIAS || reference_sees(p, view, b, h, i, j))
            out->value = score_at(p, view, p->scores, b, h, i, j, &out->bound);
    }
}

/* Weights of the n visible keys, and what their denominator may be off by. */
struct denominator {
    double max, sum, slack, gather;
};

static struct denominator normalise(const clattn_problem *p, const struct tensor_view *view,
                                    const size_t h, const size_t n, struct reference_row *row)
{
    struct denominator den = {-INFINITY, 0.0, 0.0, (double)(2 * n + 16) * u};
    double sink = -INFINITY;

    if (p->sinks)
        sink = ((const float *)(const void *)view->at[TENSOR_SINKS])[h];
    den.max = sink;
    for (size_t j = 0; j < p->seq_kv; j++)
        if (row->p[j] > 0.0 && !(row->s[j] <= den.max))
            den.max = isnan(den.max) ? den.max : row->s[j];
    if (den.max == -INFINITY)
        return den;
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (row->p[j] == 0.0)
            continue;
        row->p[j] = exp(row->s[j] - den.max);
        row->slack[j] = row->s[j] == -INFINITY
                            ? 0.0
                            : expm1(row->slack[j] + (8 + 3 * fabs(row->s[j] - den.max)) * u);
        den.sum += row->p[j];
        den.slack += row->p[j] * row->slack[j];
    }
    if (sink != -INFINITY) {
        const double e = exp(sink - den.max);
        den.sum += e;
        den.slack += e * expm1((8 + 3 * fabs(sink - den.max) + 2 * fabs(sink)) * u);
    }
    den.slack /= den.sum;
    for (size_t j = 0; j < p->seq_kv; j++)
        row->p[j] /= den.sum;
    return den;
}

static void weigh_values(const clattn_problem *p, const struct tensor_view *view, const size_t b,
                         const size_t h, const size_t i, const struct denominator *den,
                         const unsigned char *seen, struct reference_row *row)
{
    const struct tensor_shape vs = tensor_shape_of(p, TENSOR_V);
    const double gather = den->gather + (p->dropout > 0.0f ? 3 * u : 0.0);

    for (size_t j = 0; j < p->seq_kv; j++)
        row->factor[j] = seen[j] ? reference_dropout_factor(p, view, b, h, i, j) : 0.0;
    for (size_t d = 0; d < p->dim_v; d++) {
        double o = 0.0, error = 0.0;
        for (size_t j = 0; j < p->seq_kv; j++) {
            if (!seen[j])
                continue;
            const size_t at = tensor_index(&vs, b, h / (p->heads / p->kv_heads), j, d);
            const double v = tensor_load(&vs, view->at[TENSOR_V], at);
            o += row->factor[j] * row->p[j] * v;
            error +=
                row->factor[j] * fabs(v) * (row->p[j] * (row->slack[j] + gather) + 2 * FLT_MIN);
        }
        error += fabs(o) * (den->slack + den->gather) + FLT_MIN;
        row->o[d].value = o;
        row->o[d].bound = error + storage_rounding(p->dtype, fabs(o) + error);
    }
}

void reference_row_compute(const clattn_problem *p, const struct tensor_view *view, const size_t b,
                           const size_t h, const size_t i, struct reference_row *row)
{
    unsigned char *seen = calloc(p->seq_kv + 1, 1);
    size_t n = 0;

    if (!seen)
        abort();
    for (size_t j = 0; j < p->seq_kv; j++) {
        seen[j] = (unsigned char)reference_sees(p, view, b, h, i, j);
        row->p[j] = seen[j];
        row->s[j] = -INFINITY;
        row->slack[j] = 0.0;
        if (seen[j])
            row->s[j] = score_at(p, view, CLATTN_SCORES_BIAS, b, h, i, j, &row->slack[j]);
        n += seen[j];
    }
    if (p->scores != CLATTN_SCORES_NONE && p->scores != CLATTN_SCORES_WEIGHTS)
        hand_out_scores(p, view, b, h, i, row);

    struct denominator den = {-INFINITY, 0.0, 0.0, 0.0};
    if (n > 0)
        den = normalise(p, view, h, n, row);
    const int nothing = den.max == -INFINITY;
    for (size_t d = 0; d < p->dim_v; d++)
        row->o[d] = (struct bounded){0.0, 0.0};
    if (!nothing)
        weigh_values(p, view, b, h, i, &den, seen, row);
    row->lse.value = nothing ? -INFINITY : den.max + log(den.sum);
    row->lse.bound = den.slack + den.gather + 8 * u * (1 + fabs(den.max) + fabs(row->lse.value));
    if (p->scores == CLATTN_SCORES_WEIGHTS)
        for (size_t j = 0; j < p->seq_kv; j++) {
            const double weight = nothing || !seen[j] ? 0.0 : row->p[j];
            const double error = row->slack[j] + den.slack + 2 * den.gather;
            row->scores[j] = (struct bounded){
                weight, weight == 0.0 && !seen[j] ? 0.0 : weight * error + 2 * FLT_MIN};
        }
    free(seen);
}

int reference_row_open(const clattn_problem *p, struct reference_row *row)
{
    *row = (struct reference_row){
        .o = calloc(p->dim_v, sizeof *row->o),
        .scores = calloc(p->seq_kv + 1, sizeof *row->scores),
        .s = calloc(p->seq_kv + 1, sizeof *row->s),
        .slack = calloc(p->seq_kv + 1, sizeof *row->slack),
        .p = calloc(p->seq_kv + 1, sizeof *row->p),
        .factor = calloc(p->seq_kv + 1, sizeof *row->factor),
    };
    return row->o && row->scores && row->s && row->slack && row->p && row->factor;
}

void reference_row_close(struct reference_row *row)
{
    free(row->factor);
    free(row->p);
    free(row->slack);
    free(row->s);
    free(row->scores);
    free(row->o);
}

int within(const double got, const struct bounded want)
{
    if (isnan(want.value))
        return isnan(got);
    if (isinf(want.value))
        return got == want.value;
    return fabs(got - want.value) <= want.bound;
}
