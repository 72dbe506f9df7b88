#include "trust_case.h"
#include "layout.h"
#include "log.h"
#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More than one tile of every family, and ragged in each dimension; the second batch is shorter
 * where there are lengths. */
enum { BATCH = 2, HEADS = 2, SEQ_Q = 67, SEQ_KV = 149, SHORTER = 21 };
#define HUGE_VALUE_BEHIND_MASK 1e30f

static clattn_problem shrink(const clattn_problem *real)
{
    clattn_problem p = *real;

    p.batch = BATCH;
    p.heads = HEADS;
    p.kv_heads = real->heads == real->kv_heads ? HEADS : 1;
    p.seq_q = SEQ_Q;
    p.seq_kv = SEQ_KV;
    p.scale = (float)(1.0 / sqrt((double)p.dim_qk));
    if (p.softcap > 0.0f)
        p.softcap = 3.0f;
    if (p.diagonal == CLATTN_OFFSET)
        p.diagonal_offset = SEQ_KV - SEQ_Q - 5;
    if (p.window_left != CLATTN_UNLIMITED)
        p.window_left = 40;
    if (p.window_right != CLATTN_UNLIMITED)
        p.window_right = p.causal ? 0 : 30;
    clattn_layout_broadcast(&p, 4, (size_t[]){BATCH, HEADS, SEQ_Q, SEQ_KV}, &p.bias_layout);
    p.mask_layout = p.bias_layout;
    return p;
}

/* Packed, but with the real one's kind of innermost stride: 1 or not. */
static clattn_layout keep_unit(const clattn_layout *real, size_t heads, size_t seq, size_t dim)
{
    const size_t step = real->stride[3] == 1 || dim == 1 ? 1 : 2;
    const clattn_layout layout = {{heads * seq * dim * step, seq * dim * step, dim * step, step}};

    return layout;
}

/* ---- data ------------------------------------------------------------------------------------- */

/* -1 .. 1, the same on every machine (xorshift32). */
static float next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static void store(unsigned char *bytes, clattn_dtype dtype, size_t n, float value)
{
    unsigned u;
    memcpy(&u, &value, sizeof u);
    unsigned short half = (unsigned short)(u >> 16); /* bf16, cut */

    if (dtype == CLATTN_F32) {
        memcpy(bytes + 4 * n, &value, 4);
        return;
    }
    if (dtype == CLATTN_F16) { /* of 0, NaN, -inf and magnitudes from 2^-14 to 2^15; others: inf */
        const unsigned sign = u >> 16 & 0x8000u;
        const int exponent = (int)(u >> 23 & 0xff) - 127;
        half = (unsigned short)(value != value  ? sign | 0x7e00u
                                : exponent > 15 ? sign | 0x7c00u
                                : exponent < -14
                                    ? sign
                                    : sign | (unsigned)(exponent + 15) << 10 | (u >> 13 & 0x3ffu));
    }
    memcpy(bytes + 2 * n, &half, 2);
}

static double load(const unsigned char *bytes, clattn_dtype dtype, size_t n)
{
    unsigned short half;
    unsigned u;
    float value;

    if (dtype == CLATTN_F32) {
        memcpy(&value, bytes + 4 * n, 4);
        return (double)value;
    }
    memcpy(&half, bytes + 2 * n, 2);
    if (dtype == CLATTN_F16) {
        const int exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
        const double sign = half & 0x8000 ? -1.0 : 1.0;
        if (exponent == 31)
            return fraction ? NAN : sign * INFINITY;
        return sign * (exponent ? ldexp(1024.0 + fraction, exponent - 25) : ldexp(fraction, -24));
    }
    u = (unsigned)half << 16;
    memcpy(&value, &u, 4);
    return (double)value;
}

static size_t keys_in_use(const clattn_problem *p, size_t b)
{
    return p->kv_lengths && b == 1 ? SEQ_KV - SHORTER : SEQ_KV;
}

static size_t queries_in_use(const clattn_problem *p, size_t b)
{
    return p->q_lengths && b == 1 ? SEQ_Q - SHORTER : SEQ_Q;
}

/* A key that the mask hides from every query, and a query that it lets see nothing. */
static int masked(size_t i, size_t j)
{
    return j == 70 || i == 33 || (i * 7 + j * 3) % 5 == 0;
}

static float hidden_value(size_t n)
{
    return n % 3 == 0 ? NAN : n % 3 == 1 ? HUGE_VALUE_BEHIND_MASK : -INFINITY;
}

static void fill_rows(struct ca_trust_case *c, enum ca_argument argument, const struct ca_tensor *t,
                      unsigned *state)
{
    const clattn_problem *p = &c->problem;
    unsigned char *data = c->bytes[argument] + CA_TRUST_GUARD;

    for (size_t b = 0; b < t->sizes[0]; b++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                const int hidden = argument == CA_Q
                                       ? s >= queries_in_use(p, b)
                                       : s >= keys_in_use(p, b) || (p->mask && s == 70);
                for (size_t d = 0; d < t->sizes[3]; d++) {
                    const float value = next(state);
                    store(data, p->dtype,
                          b * t->layout.stride[0] + h * t->layout.stride[1] +
                              s * t->layout.stride[2] + d * t->layout.stride[3],
                          hidden ? hidden_value(s + d) : value);
                }
            }
}

static void fill_plain(struct ca_trust_case *c, unsigned *state)
{
    const clattn_problem *p = &c->problem;

    for (size_t n = 0; n < (size_t)BATCH * HEADS * SEQ_Q * SEQ_KV; n++) {
        const size_t j = n % SEQ_KV, i = n / SEQ_KV % SEQ_Q;
        if (p->bias)
            store(c->bytes[CA_BIAS] + CA_TRUST_GUARD, p->bias_dtype, n,
                  (i + 2 * j) % 11 == 0 ? -INFINITY : next(state));
        if (p->mask)
            c->bytes[CA_MASK][CA_TRUST_GUARD + n] = !masked(i, j);
    }
    for (size_t h = 0; h < HEADS; h++) {
        if (p->alibi)
            store(c->bytes[CA_SLOPES] + CA_TRUST_GUARD, CLATTN_F32, h, 0.03f * (float)(h + 1));
        if (p->sinks)
            store(c->bytes[CA_SINKS] + CA_TRUST_GUARD, CLATTN_F32, h, 0.5f - (float)h);
    }
    for (size_t b = 0; b < BATCH; b++) {
        const cl_int queries = (cl_int)queries_in_use(p, b), keys = (cl_int)keys_in_use(p, b);
        if (p->q_lengths)
            memcpy(c->bytes[CA_Q_LENGTHS] + CA_TRUST_GUARD + 4 * b, &queries, 4);
        if (p->kv_lengths)
            memcpy(c->bytes[CA_KV_LENGTHS] + CA_TRUST_GUARD + 4 * b, &keys, 4);
    }
}

/* ---- right answers ------------------------------------------------------------------------------ */

static double element(const struct ca_trust_case *c, enum ca_argument argument,
                      const clattn_layout *layout, size_t b, size_t h, size_t s, size_t d)
{
    return load(c->bytes[argument] + CA_TRUST_GUARD, c->problem.dtype,
                b * layout->stride[0] + h * layout->stride[1] + s * layout->stride[2] +
                    d * layout->stride[3]);
}

static int sees(const clattn_problem *p, size_t b, size_t i, size_t j, long diagonal)
{
    const long now = (long)i + diagonal, key = (long)j;

    return i < queries_in_use(p, b) && j < keys_in_use(p, b) && !(p->mask && masked(i, j)) &&
           (p->window_left == CLATTN_UNLIMITED || key >= now - (long)p->window_left) &&
           (p->window_right == CLATTN_UNLIMITED || key <= now + (long)p->window_right);
}

/* One row of the formula of clattn/problem.h. Puts the row's scores at the point that the problem
 * asks for into out (SEQ_KV), its output into o (dim_v) and its log-sum-exp into lse. */
static void solve_row(const struct ca_trust_case *c, size_t b, size_t h, size_t i, double *out,
                      double *o, double *lse)
{
    const clattn_problem *p = &c->problem;
    const size_t g = h / (p->heads / p->kv_heads), row = (b * HEADS + h) * SEQ_Q + i;
    const unsigned char *slopes = c->bytes[CA_SLOPES], *sinks = c->bytes[CA_SINKS];
    const long diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT
                              ? (long)keys_in_use(p, b) - (long)queries_in_use(p, b)
                              : (long)ca_problem_diagonal(p);
    const double sink = p->sinks ? load(sinks + CA_TRUST_GUARD, CLATTN_F32, h) : -INFINITY;
    double weights[SEQ_KV], most = sink, sum = 0.0;
    int any = 0;

    for (size_t j = 0; j < SEQ_KV; j++) {
        double s = 0.0;
        for (size_t d = 0; d < p->dim_qk; d++)
            s += element(c, CA_Q, &p->q, b, h, i, d) * element(c, CA_K, &p->k, b, g, j, d);
        s *= (double)p->scale;
        if (p->scores == CLATTN_SCORES_RAW)
            out[j] = s;
        if (p->softcap > 0.0f)
            s = (double)p->softcap * tanh(s / (double)p->softcap);
        if (p->scores == CLATTN_SCORES_SOFTCAP)
            out[j] = s;
        const double bias =
            p->bias ? load(c->bytes[CA_BIAS] + CA_TRUST_GUARD, p->bias_dtype, row * SEQ_KV + j)
                    : 0.0;
        s += bias;
        if (p->alibi)
            s += load(slopes + CA_TRUST_GUARD, CLATTN_F32, h) *
                 (double)((long)j - (long)i - diagonal);
        weights[j] = sees(p, b, i, j, diagonal) && bias != -INFINITY ? s : -INFINITY;
        any |= weights[j] != -INFINITY;
        most = fmax(most, weights[j]);
        if (p->scores == CLATTN_SCORES_BIAS)
            out[j] = weights[j];
    }
    for (size_t j = 0; j < SEQ_KV; j++)
        sum += weights[j] = any ? exp(weights[j] - most) : 0.0;
    sum += any ? exp(sink - most) : 1.0;
    for (size_t d = 0; d < p->dim_v; d++) {
        o[d] = 0.0;
        for (size_t j = 0; j < SEQ_KV; j++)
            if (weights[j] > 0.0)
                o[d] += weights[j] / sum * element(c, CA_V, &p->v, b, g, j, d);
    }
    for (size_t j = 0; j < SEQ_KV && p->scores == CLATTN_SCORES_WEIGHTS; j++)
        out[j] = weights[j] / sum;
    *lse = any ? most + log(sum) : -INFINITY;
}

/* Every how manyth row is judged: a check should take milliseconds. All rows are computed, and
 * SEQ_Q is prime, so every place of a tile has its turn. */
static size_t row_step(const clattn_problem *p)
{
    const size_t step = 1 + (p->dim_qk + p->dim_v) / 64;

    return step < 13 ? step : 13;
}

static void solve(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    double unwanted[SEQ_KV];

    for (size_t row = 0; row < (size_t)BATCH * HEADS * SEQ_Q; row += row_step(p)) {
        double *const scores = c->scores ? c->scores + row * SEQ_KV : unwanted;
        solve_row(c, row / SEQ_Q / HEADS, row / SEQ_Q % HEADS, row % SEQ_Q, scores,
                  c->o + row * p->dim_v, &c->lse[row]);
    }
}

int ca_trust_case_make(struct ca_trust_case *c, const clattn_problem *real)
{
    const size_t rows = (size_t)BATCH * HEADS * SEQ_Q;
    struct ca_tensor tensors[CA_WORKSPACE];
    unsigned state = 20240229u;
    int complete = 1;

    memset(c, 0, sizeof *c);
    c->problem = shrink(real);
    clattn_problem *p = &c->problem;
    p->q = keep_unit(&real->q, HEADS, SEQ_Q, p->dim_qk);
    p->k = keep_unit(&real->k, p->kv_heads, SEQ_KV, p->dim_qk);
    p->v = keep_unit(&real->v, p->kv_heads, SEQ_KV, p->dim_v);
    p->o = keep_unit(&real->o, HEADS, SEQ_Q, p->dim_v);
    c->tolerance = p->dtype == CLATTN_F32 ? 2e-5 : p->dtype == CLATTN_F16 ? 2e-3 : 1e-2;
    ca_problem_tensors(p, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        size_t span;
        if (!tensors[n].present)
            continue;
        ca_layout_span(&tensors[n].layout, tensors[n].sizes, &span);
        c->sizes[n] = span * tensors[n].element_bytes + 2 * CA_TRUST_GUARD;
        c->bytes[n] = malloc(c->sizes[n]);
        if (c->bytes[n])
            memset(c->bytes[n], CA_TRUST_FILL, c->sizes[n]);
        else
            complete = 0;
    }
    c->o = malloc(rows * p->dim_v * sizeof *c->o);
    c->lse = malloc(rows * sizeof *c->lse);
    if (p->scores != CLATTN_SCORES_NONE)
        c->scores = malloc(rows * SEQ_KV * sizeof *c->scores);
    if (!complete || !c->o || !c->lse || (p->scores != CLATTN_SCORES_NONE && !c->scores)) {
        ca_trust_case_free(c);
        return 0;
    }
    fill_rows(c, CA_Q, &tensors[CA_Q], &state);
    fill_rows(c, CA_K, &tensors[CA_K], &state);
    fill_rows(c, CA_V, &tensors[CA_V], &state);
    fill_plain(c, &state);
    solve(c);
    return 1;
}

void ca_trust_case_free(struct ca_trust_case *c)
{
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        free(c->bytes[n]);
    free(c->o);
    free(c->lse);
    free(c->scores);
    memset(c, 0, sizeof *c);
}

/* ---- judgement -------------------------------------------------------------------------------- */

static int close_to(double got, double want, double tolerance)
{
    return got == want || (isnan(got) && isnan(want)) ||
           fabs(got - want) <= tolerance * fmax(1.0, fabs(want));
}

static int guards_intact(const unsigned char *bytes, size_t size)
{
    for (size_t n = 0; n < CA_TRUST_GUARD; n++)
        if (bytes[n] != CA_TRUST_FILL || bytes[size - 1 - n] != CA_TRUST_FILL)
            return 0;
    return 1;
}

const char *ca_trust_case_judge(const struct ca_trust_case *c, char *text, size_t text_bytes)
{
    const clattn_problem *p = &c->problem;

    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        if (c->bytes[n] && !guards_intact(c->bytes[n], c->sizes[n])) {
            ca_reason(text, text_bytes, "it writes outside of its output");
            return text;
        }
    }
    for (size_t row = 0; row < (size_t)BATCH * HEADS * SEQ_Q; row += row_step(p)) {
        const size_t b = row / SEQ_Q / HEADS, h = row / SEQ_Q % HEADS, i = row % SEQ_Q;
        for (size_t d = 0; d < p->dim_v; d++) {
            const double got = element(c, CA_O, &p->o, b, h, i, d);
            const double want = c->o[row * p->dim_v + d];
            if (!close_to(got, want, c->tolerance)) {
                ca_reason(text, text_bytes, "o(%zu, %zu, %zu, %zu) is %g, should be %g", b, h, i, d,
                          got, want);
                return text;
            }
        }
        const double lse =
            p->lse ? load(c->bytes[CA_LSE] + CA_TRUST_GUARD, CLATTN_F32, row) : c->lse[row];
        if (!close_to(lse, c->lse[row], 2e-5)) {
            ca_reason(text, text_bytes, "lse(%zu, %zu, %zu) is %g, should be %g", b, h, i, lse,
                      c->lse[row]);
            return text;
        }
        for (size_t j = 0; j < SEQ_KV && c->scores; j++) {
            const double got =
                load(c->bytes[CA_SCORES] + CA_TRUST_GUARD, CLATTN_F32, row * SEQ_KV + j);
            const double want = c->scores[row * SEQ_KV + j];
            /* Raw scores of hidden values may overflow f32. */
            if (!(fabs(want) < 1e20) && p->scores <= CLATTN_SCORES_SOFTCAP)
                continue;
            if (!close_to(got, want, 2e-5)) {
                ca_reason(text, text_bytes, "score(%zu, %zu, %zu, %zu) is %g, should be %g", b, h,
                          i, j, got, want);
                return text;
            }
        }
    }
    return NULL;
}
