/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of the gradients: against finite differences of the forward reference, and a naive f32
 * implementation. */
#include "bench/judge/gradients.h"
#include "bench/judge/row.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(reference_backward, .timeout = 120);

/* ---- finite differences --------------------------------------------------------------------- */

/* A backward problem in f32 with data; values are multiples of 2^-10, so that steps are exact. */
struct data {
    clattn_problem p;
    unsigned char *bytes[NUM_TENSORS];
    struct tensor_view view;
};

static float *elements(const struct data *x, const enum tensor_id id)
{
    return (float *)(void *)x->bytes[id];
}

static void fill(const clattn_problem *p, const enum tensor_id id, const size_t count,
                 struct rng *r, unsigned char *bytes)
{
    for (size_t n = 0; n < count; n++) {
        const cl_int length = (cl_int)rng_below(r, 9);
        if (id == TENSOR_MASK)
            bytes[n] = !rng_one_in(r, 3);
        else if (id == TENSOR_Q_LENGTHS || id == TENSOR_KV_LENGTHS)
            memcpy(bytes + n * sizeof length, &length, sizeof length);
        else if (id == TENSOR_BIAS && p->mask && rng_one_in(r, 6))
            value_set(CLATTN_F32, bytes, n, -INFINITY);
        else
            value_set(CLATTN_F32, bytes, n, nearbyint(rng_uniform(r, -1500, 1500)) * 0x1p-10);
    }
}

static double forward(struct data *x, const int keep_results)
{
    clattn_problem p = x->p;
    const struct tensor_shape o = tensor_shape_of(&x->p, TENSOR_O);
    struct reference_row row;
    double loss = 0.0;

    p.operation = CLATTN_FORWARD;
    cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
    for (size_t n = 0; n < p.batch * p.heads * p.seq_q; n++) {
        const size_t b = n / p.seq_q / p.heads, h = n / p.seq_q % p.heads, i = n % p.seq_q;
        reference_row_compute(&p, &x->view, b, h, i, &row);
        for (size_t d = 0; d < p.dim_v; d++) {
            const size_t at = tensor_index(&o, b, h, i, d);
            loss += row.o[d].value * (double)elements(x, TENSOR_DO)[at];
            if (keep_results)
                elements(x, TENSOR_O)[at] = (float)row.o[d].value;
        }
        if (keep_results)
            elements(x, TENSOR_LSE)[n] = (float)row.lse.value;
        if (x->p.dlse && isfinite(row.lse.value))
            loss += row.lse.value * (double)elements(x, TENSOR_DLSE)[n];
    }
    reference_row_close(&row);
    return loss;
}

static void open_data(struct data *x, const char *problem)
{
    struct rng r = rng_seed(5);

    memset(x, 0, sizeof *x);
    x->p = fixture_problem(problem);
    x->view.dropout_seed = UINT64_C(0x123456789abcdef);
    x->view.dropout_offset = 77;
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&x->p, (enum tensor_id)id);
        if (!s.present || s.written)
            continue;
        x->bytes[id] = malloc(s.extent * s.element_bytes);
        cr_assert(x->bytes[id] != NULL);
        fill(&x->p, (enum tensor_id)id, s.extent, &r, x->bytes[id]);
        x->view.at[id] = x->bytes[id];
    }
    forward(x, 1);
}

static void close_data(struct data *x)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        free(x->bytes[id]);
}

/* The derivative of the loss by one stored number: central differences of fourth order. */
static double difference(struct data *x, float *value)
{
    static const double weights[] = {-8, 8, 1, -1};
    static const float steps[] = {-0x1p-7f, 0x1p-7f, -0x1p-6f, 0x1p-6f};
    const float origin = *value;
    double sum = 0.0;

    for (int n = 0; n < 4; n++) {
        *value = origin + steps[n];
        sum += weights[n] * forward(x, 0);
    }
    *value = origin;
    return sum / (12 * 0x1p-7);
}

/* Every element of an input against its gradient; where several elements of the input share a
 * place, that place gets the sum. */
static void compare(struct data *x, const enum tensor_id input, const enum tensor_id gradient,
                    const struct reference_gradients *got)
{
    const struct tensor_shape from = tensor_shape_of(&x->p, input);
    const struct tensor_shape to = tensor_shape_of(&x->p, gradient);
    size_t n = 0;

    if (!to.present)
        return;
    for (size_t b = 0; b < to.size[0]; b++)
        for (size_t h = 0; h < to.size[1]; h++)
            for (size_t i = 0; i < to.size[2]; i++)
                for (size_t d = 0; d < to.size[3]; d++, n++) {
                    float *value = elements(x, input) + tensor_index(&from, b, h, i, d);
                    const struct bounded g = got->at[gradient][n];
                    const double want = isfinite(*value) ? difference(x, value) : 0.0;
                    cr_assert(fabs(g.value - want) <= g.bound + 2e-7 * (1 + fabs(want)),
                              "%s[%zu, %zu, %zu, %zu]: %.9g, by differences %.9g", to.name, b, h, i,
                              d, g.value, want);
                    cr_assert(g.bound <= 1e-3, "a bound of %g", g.bound);
                }
}

struct text {
    char problem[200]; /* no pointer: it crosses processes */
};

ParameterizedTestParameters(reference_backward, finite_differences) {
    static struct text texts[] = {
        {"bwd f32 q3 k4 d3"},
        {"bwd f32 b2 h4/2 q3 k5 d3/2 causal=br"},
        {"bwd f32 h2 q5 k4 d2/3 softcap=1.5 scale=0.8 window=2,1 dv=bshd q=bshd"},
        {"bwd f32 b2 h2/1 q4 k5 d2 bias=f32:bhqk dbias mask=qk"},
        {"bwd f32 b2 h2 q4 k3 d2 bias=f32:hk dbias sinks dsinks softcap=2"},
        {"bwd f32 b2 h3 q2 k3 d2 bias=f32:0.0.0.0 dbias alibi dslopes causal=tl"},
        {"bwd f32 h2 q4 k3 d2 bias=f32:q dbias alibi dslopes sinks dsinks causal=-1"},
        {"bwd f32 b3 h2 q4 k6 d2 qlen klen diagonal=br alibi dslopes window=3,*"},
        {"bwd f32 b2 h2/1 q3 k6 d2 dropout=0.4 sinks dsinks bias=f32:bqk dbias"},
        {"bwd f32 b2 h4/2 q5 k4 d3 causal=-1 sinks dsinks dropout=0.3 dlse"},
        {"bwd f32 h2 q4 k4 d2 softcap=1 alibi dslopes bias=f32:qk dbias mask=hqk klen dlse"},
        {"bwd f32 h2 q4 k4 d2 dropout=0.25 softcap=1 alibi dslopes mask=hqk klen scale=-0.7"},
        {"bwd f32 b2 h2/1 q3 k14 d2 klen score=t5 dfunction"},
        {"bwd f32 b2 h3 q4 k5 d2 softcap=2 causal=br dropout=0.2 score=temperature dfunction"},
    };
    return cr_make_param_array(struct text, texts, sizeof texts / sizeof *texts);
}

ParameterizedTest(struct text *text, reference_backward, finite_differences) {
    struct reference_gradients gradients;
    struct data x;

    open_data(&x, text->problem);
    cr_assert(reference_gradients_open(&x.p, &x.view, &gradients));
    compare(&x, TENSOR_Q, TENSOR_DQ, &gradients);
    compare(&x, TENSOR_K, TENSOR_DK, &gradients);
    compare(&x, TENSOR_V, TENSOR_DV, &gradients);
    compare(&x, TENSOR_BIAS, TENSOR_DBIAS, &gradients);
    compare(&x, TENSOR_SLOPES, TENSOR_DSLOPES, &gradients);
    compare(&x, TENSOR_SINKS, TENSOR_DSINKS, &gradients);
    compare(&x, TENSOR_FUNCTION_0, TENSOR_DFUNCTION, &gradients);
    reference_gradients_close(&gradients);
    close_data(&x);
}

/* ---- bounds --------------------------------------------------------------------------------- */

enum { KEYS = 60, DIM = 40, ROWS = 5 };

/* The plainest gradients in f32. */
static void naive(const struct data *x, float *dq, float *dk, float *dv)
{
    const float *q = elements(x, TENSOR_Q), *k = elements(x, TENSOR_K), *v = elements(x, TENSOR_V);
    const float *o = elements(x, TENSOR_O), *d_o = elements(x, TENSOR_DO);
    const float scale = 1.0f / sqrtf(DIM);

    for (size_t i = 0; i < ROWS; i++) {
        float delta = 0.0f;
        for (size_t d = 0; d < DIM; d++)
            delta += o[i * DIM + d] * d_o[i * DIM + d];
        for (size_t j = 0; j < KEYS; j++) {
            float s = 0.0f, dp = 0.0f;
            for (size_t d = 0; d < DIM; d++) {
                s += q[i * DIM + d] * k[j * DIM + d];
                dp += d_o[i * DIM + d] * v[j * DIM + d];
            }
            const float weight = expf(s * scale - elements(x, TENSOR_LSE)[i]);
            const float ds = weight * (dp - delta) * scale;
            for (size_t d = 0; d < DIM; d++) {
                dq[i * DIM + d] += ds * k[j * DIM + d];
                dk[j * DIM + d] += ds * q[i * DIM + d];
                dv[j * DIM + d] += weight * d_o[i * DIM + d];
            }
        }
    }
}

/* The bounds hold for it, and are not wildly larger than its error. */
Test(reference_backward, bounds_hold_for_naive_f32) {
    static float results[3][KEYS * DIM];
    const enum tensor_id ids[] = {TENSOR_DQ, TENSOR_DK, TENSOR_DV};
    const size_t counts[] = {ROWS * DIM, KEYS * DIM, KEYS * DIM};
    struct reference_gradients want;
    struct data x;

    open_data(&x, "bwd f32 q5 k60 d40");
    cr_assert(reference_gradients_open(&x.p, &x.view, &want));
    naive(&x, results[0], results[1], results[2]);
    for (int n = 0; n < 3; n++) {
        double worst = 0.0;
        for (size_t e = 0; e < counts[n]; e++) {
            const struct bounded w = want.at[ids[n]][e];
            const double got = results[n][e];
            cr_assert(within(got, w), "%g, %g +- %g", got, w.value, w.bound);
            cr_assert(!within(got + 1e-3, w) && !within(NAN, w));
            worst = fmax(worst, fabs(got - w.value) / w.bound);
        }
        cr_assert(worst > 0.002, "the bounds are %g times the error", 1 / worst);
    }
    reference_gradients_close(&want);
    close_data(&x);
}
