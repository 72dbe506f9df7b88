/* SPDX-License-Identifier: Apache-2.0 */
/* The reference and the storage formats, against numbers worked out by hand and properties. */
#include "bench/judge/row.h"
#include "bench/judge/score.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static struct tensor_view view_of(const float *q, const float *k, const float *v)
{
    struct tensor_view view = {.at = {NULL}};

    view.at[TENSOR_Q] = (const unsigned char *)q;
    view.at[TENSOR_K] = (const unsigned char *)k;
    view.at[TENSOR_V] = (const unsigned char *)v;
    return view;
}

/* Two keys have the weights 1/4 and 3/4. Standard precision may round each weight to the dtype. */
Test(reference, precision_by_hand) {
    const unsigned short q[] = {0x3f80, 0}, k[] = {0, 0, 0x3f8d, 0}; /* 1; 1.1015625, about log 3 */
    const unsigned short v[] = {0x4080, 0xc100, 0x4100, 0};          /* 4, -8; 8, 0 */
    clattn_problem p = fixture_problem("fwd bf16 q1 k2 d2 scale=1 odtype=f32");
    const struct tensor_view view =
        view_of((const float *)(const void *)q, (const float *)(const void *)k,
                (const float *)(const void *)v);
    const double one = 1.0 / (1.0 + exp(1.1015625)), other = 1.0 - one;
    struct reference_row row;
    double bounds[2][2];

    for (int strict = 0; strict < 2; strict++) {
        p.strict = strict;
        cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
        reference_row_compute(&p, &view, 0, 0, 0, &row);
        cr_assert_float_eq(row.o[0].value, 4 * one + 8 * other, 1e-12);
        for (int d = 0; d < 2; d++)
            bounds[strict][d] = row.o[d].bound;
        reference_row_close(&row);
    }
    cr_assert(bounds[1][0] < 1e-4 && bounds[1][1] < 1e-4);
    cr_assert_float_eq(bounds[0][0] - bounds[1][0], 0x1p-8 * (4 * one + 8 * other), 1e-6);
    cr_assert_float_eq(bounds[0][1] - bounds[1][1], 0x1p-8 * 8 * one, 1e-6);
}

/* One key, all terms of the score: 2 * 3 * 0.5 = 3; 2 tanh(3 / 2); + 1.5; + 0.25 * (0 - 0 - 4);
 * the sink takes its share of the weight but gives no value. */
Test(reference, order_of_terms_by_hand) {
    const float q[] = {3}, k[] = {2}, v[] = {5}, bias[] = {1.5f}, slope[] = {0.25f}, sink[] = {1};
    clattn_problem p = fixture_problem("fwd f32 q1 k1 d1 scale=0.5 softcap=2 diagonal=4 "
                                       "bias=f32:0.0.0.0 alibi sinks lse scores=bias");
    struct tensor_view view = view_of(q, k, v);
    struct reference_row row;

    view.at[TENSOR_BIAS] = (const unsigned char *)bias;
    view.at[TENSOR_SLOPES] = (const unsigned char *)slope;
    view.at[TENSOR_SINKS] = (const unsigned char *)sink;
    cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
    reference_row_compute(&p, &view, 0, 0, 0, &row);
    const double s = 2 * tanh(1.5) + 1.5 - 1.0, sum = exp(s) + exp(1);
    cr_assert_float_eq(row.scores[0].value, s, 1e-12);
    cr_assert_float_eq(row.lse.value, log(sum), 1e-12);
    cr_assert_float_eq(row.o[0].value, 5 * exp(s) / sum, 1e-12);
    p.scores = CLATTN_SCORES_SOFTCAP;
    reference_row_compute(&p, &view, 0, 0, 0, &row);
    cr_assert_float_eq(row.scores[0].value, 2 * tanh(1.5), 1e-12);
    p.scores = CLATTN_SCORES_RAW;
    reference_row_compute(&p, &view, 0, 0, 0, &row);
    cr_assert(row.scores[0].value == 3.0);
    reference_row_close(&row);
}

/* Every rule for what is seen, on 4 queries and 6 keys; a string per query, '1' for a key seen. */
Test(reference, what_is_seen) {
    const cl_int three = 3, five = 5, offsets[] = {0, 2, 1 << 20};
    /* Column 1 is listed, and column 0 twice, once as full. -1 and 2 are no columns. */
    const cl_int entries[] = {1, -1, 0, CLATTN_BLOCK_FULL, 2};
    const unsigned char mask[] = {0, 0, 0, 0, 0, 0};
    const struct {
        const char *problem, *seen[4];
    } cases[] = {
        {"fwd f32 q4 k6 d1", {"111111", "111111", "111111", "111111"}},
        {"fwd f32 q4 k6 d1 causal=tl", {"100000", "110000", "111000", "111100"}},
        {"fwd f32 q4 k6 d1 causal=br", {"111000", "111100", "111110", "111111"}},
        {"fwd f32 q4 k6 d1 causal=-2", {"000000", "000000", "100000", "110000"}},
        {"fwd f32 q4 k6 d1 window=1,0", {"100000", "110000", "011000", "001100"}},
        {"fwd f32 q4 k6 d1 diagonal=br window=1,1", {"011100", "001110", "000111", "000011"}},
        {"fwd f32 q4 k6 d1 causal=tl window=*,9", {"100000", "110000", "111000", "111100"}},
        {"fwd f32 q4 k6 d1 klen", {"111110", "111110", "111110", "111110"}},
        {"fwd f32 q4 k6 d1 qlen", {"111111", "111111", "111111", "000000"}},
        {"fwd f32 q4 k6 d1 blocks=2x4:5", {"000011", "000011", "111100", "111100"}},
        {"fwd f32 q4 k6 d1 blocks=2x4:5 mask=k", {"000000", "000000", "111100", "111100"}},
        {"fwd f32 q4 k6 d1 blocks=2x4:1", {"000011", "000011", "000000", "000000"}},
        {"fwd f32 q4 k6 d1 blocks=3x2:5 causal=br", {"001000", "001100", "001100", "110011"}},
        {"fwd f32 q4 k6 d1 qlen klen causal=br", {"111000", "111100", "111110", "000000"}},
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const clattn_problem p = fixture_problem(cases[c].problem);
        struct tensor_view view = {.at = {NULL}};
        view.at[TENSOR_Q_LENGTHS] = (const unsigned char *)&three;
        view.at[TENSOR_KV_LENGTHS] = (const unsigned char *)&five;
        view.at[TENSOR_BLOCK_OFFSETS] = (const unsigned char *)offsets;
        view.at[TENSOR_BLOCK_ENTRIES] = (const unsigned char *)entries;
        view.at[TENSOR_MASK] = mask;
        const struct reference r = reference_of(&p, &view, PRECISION_SINGLE);
        for (size_t i = 0; i < 4; i++) {
            const struct query query = reference_query(&r, 0, 0, i);
            for (size_t j = 0; j < 6; j++)
                cr_expect(reference_sees(&r, &query, j) == (cases[c].seen[i][j] == '1'),
                          "%s, query %zu, key %zu", cases[c].problem, i, j);
        }
    }
}

/* The bounds hold for the plainest f32 implementation, and are not wildly larger than its error. */
Test(reference, bounds_hold_for_naive_f32) {
    enum { KEYS = 100, DIM = 48 };
    float q[DIM], k[KEYS * DIM], v[KEYS];
    struct rng r = rng_seed(7);
    const clattn_problem p = fixture_problem("fwd f32 q1 k100 d48/1 lse");
    struct reference_row row;
    double worst = 0.0;

    cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
    for (int run = 0; run < 50; run++) {
        float s[KEYS], max = -INFINITY, sum = 0.0f, o = 0.0f;
        for (size_t d = 0; d < DIM; d++)
            q[d] = (float)rng_uniform(&r, -2, 2);
        for (size_t n = 0; n < KEYS * DIM; n++)
            k[n] = (float)rng_uniform(&r, -2, 2);
        for (size_t j = 0; j < KEYS; j++) {
            v[j] = (float)rng_uniform(&r, -2, 2);
            s[j] = 0.0f;
            for (size_t d = 0; d < DIM; d++)
                s[j] += q[d] * k[j * DIM + d];
            s[j] *= 1.0f / sqrtf(DIM);
            max = fmaxf(max, s[j]);
        }
        for (size_t j = 0; j < KEYS; j++) {
            const float e = expf(s[j] - max);
            sum += e;
            o += e * v[j];
        }
        const struct tensor_view view = view_of(q, k, v);
        reference_row_compute(&p, &view, 0, 0, 0, &row);
        cr_assert(within(o / sum, row.o[0]), "%g, %g +- %g", (double)(o / sum), row.o[0].value,
                  row.o[0].bound);
        cr_assert(within(max + logf(sum), row.lse));
        cr_assert(!within(o / sum + 1e-3, row.o[0]) && !within(NAN, row.o[0]));
        worst = fmax(worst, fabs(o / sum - row.o[0].value) / row.o[0].bound);
    }
    cr_assert(worst > 0.003, "the bounds are %g times the error", 1 / worst);
    reference_row_close(&row);
}

/* ---- storage ------------------------------------------------------------------------------- */

Test(storage, every_16_bit_value_survives) {
    for (int dtype = CLATTN_F16; dtype <= CLATTN_BF16; dtype++)
        for (unsigned n = 0; n < 0x10000; n++) {
            const uint16_t bits = (uint16_t)n;
            const double value = value_get((clattn_dtype)dtype, &bits, 0);
            uint16_t back = 0;
            value_set((clattn_dtype)dtype, &back, 0, value);
            if (isnan(value))
                cr_assert(isnan(value_get((clattn_dtype)dtype, &back, 0)));
            else
                cr_assert(back == bits, "%#x became %#x", n, back);
        }
}

Test(storage, known_values_and_rounding) {
    const struct {
        clattn_dtype dtype;
        double value;
        uint16_t bits;
    } cases[] = {
        {CLATTN_F16, 1.0, 0x3c00},
        {CLATTN_F16, -2.0, 0xc000},
        {CLATTN_F16, 65504.0, 0x7bff},
        {CLATTN_F16, 65520.0, 0x7c00},
        {CLATTN_F16, 65519.0, 0x7bff},
        {CLATTN_F16, 0x1p-24, 0x0001},
        {CLATTN_F16, 0x1p-25, 0x0000},
        {CLATTN_F16, 0x1.8p-24, 0x0002},
        {CLATTN_F16, 1 + 0x1p-11, 0x3c00},
        {CLATTN_F16, 1 + 3 * 0x1p-11, 0x3c02},
        {CLATTN_BF16, 1.0, 0x3f80},
        {CLATTN_BF16, -2.0, 0xc000},
        {CLATTN_BF16, 1 + 0x1p-8, 0x3f80},
        {CLATTN_BF16, 1 + 3 * 0x1p-8, 0x3f82},
        {CLATTN_BF16, 0x1.ffp127, 0x7f80},
        {CLATTN_BF16, 0x1.fep127, 0x7f7f},
        {CLATTN_F16, -65520.0, 0xfc00},
        {CLATTN_F16, 0x1.ffep-15, 0x0400},
        {CLATTN_F16, 1 + 0x1p-11 + 0x1p-40, 0x3c01}, /* no ties, though f32 has them so */
        {CLATTN_BF16, 1 + 0x1p-8 + 0x1p-40, 0x3f81},
        {CLATTN_BF16, -1 - 3 * 0x1p-8 + 0x1p-40, 0xbf81},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        uint16_t bits = 0;
        value_set(cases[n].dtype, &bits, 0, cases[n].value);
        cr_expect(bits == cases[n].bits, "%a became %#x, not %#x", cases[n].value, bits,
                  cases[n].bits);
    }
    for (clattn_dtype dtype = CLATTN_F16; dtype <= CLATTN_BF16; dtype++) {
        uint16_t bits;
        value_set(dtype, &bits, 0, NAN);
        cr_expect(isnan(value_get(dtype, &bits, 0)));
    }
    cr_expect(value_rounding(CLATTN_F32, 1.0) == 0x1p-24);
    cr_expect(value_rounding(CLATTN_F16, 1.5) == 0x1p-11);
    cr_expect(value_rounding(CLATTN_F16, 0.0) == 0x1p-25);
    cr_expect(value_rounding(CLATTN_BF16, 3.0) == 0x1p-7);
}
