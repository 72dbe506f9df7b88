/* SPDX-License-Identifier: Apache-2.0 */
/* The layer's reference is itself checked: its gradients against central differences of its forward
 * direction. */
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <math.h>

TestSuite(multihead_reference, .timeout = 60);

/* sum y dy, whose gradient backward computes. */
static double loss(const clattn_multihead *layer, const struct layer_inputs *in)
{
    struct layer_outputs out;
    double sum = 0.0;

    cr_assert(reference_layer_open(layer, in, &out));
    for (size_t n = 0; n < layer_elements(layer, LAYER_Y); n++)
        sum += out.at[LAYER_Y][n].value * in->at[LAYER_DY][n];
    reference_layer_close(&out);
    return sum;
}

static const struct {
    enum layer_tensor of, gradient;
} gradients[] = {
    {LAYER_X, LAYER_DX},           {LAYER_CONTEXT, LAYER_DCONTEXT}, {LAYER_VALUES, LAYER_DVALUES},
    {LAYER_W_Q, LAYER_DW_Q},       {LAYER_W_K, LAYER_DW_K},         {LAYER_W_V, LAYER_DW_V},
    {LAYER_W_O, LAYER_DW_O},       {LAYER_B_Q, LAYER_DB_Q},         {LAYER_B_K, LAYER_DB_K},
    {LAYER_B_V, LAYER_DB_V},       {LAYER_B_O, LAYER_DB_O},         {LAYER_BIAS, LAYER_DBIAS},
    {LAYER_SLOPES, LAYER_DSLOPES}, {LAYER_SINKS, LAYER_DSINKS},
};

static void differences_agree(struct fixture *f, const char *text, const uint64_t seed)
{
    const double h = 1e-5;
    const clattn_multihead layer = layer_parsed(text);
    struct layer_outputs out;
    struct layer_case c;

    layer_case_open(f, &c, &layer, seed);
    const struct layer_inputs in = layer_case_inputs(&c);
    cr_assert(reference_layer_open(&layer, &in, &out));
    for (size_t g = 0; g < sizeof gradients / sizeof *gradients; g++) {
        double *values = c.tensor[gradients[g].of].values;
        for (size_t n = 0; n < layer_elements(&layer, gradients[g].of); n++) {
            const double at = values[n], analytic = out.at[gradients[g].gradient][n].value;
            if (isinf(at))
                continue;
            values[n] = at + h;
            const double above = loss(&layer, &in);
            values[n] = at - h;
            const double numeric = (above - loss(&layer, &in)) / (2 * h);
            values[n] = at;
            cr_assert(fabs(numeric - analytic) <= 1e-7 * (1 + fabs(analytic)),
                      "'%s', gradient %zu[%zu]: %.9g by the formula, %.9g by differences", text, g,
                      n, analytic, numeric);
        }
    }
    reference_layer_close(&out);
    layer_case_close(&c);
}

DeviceTest(multihead_reference, gradients_are_differences)
{
    static const char *const layers[] = {
        "layer fwd f32 b2 h2 q3 k3 d2 model=4 packed biases obias",
        "layer fwd f32 b2 h2/1 q3 k4 d3/2 causal=br model=3 cross=5 output=2 io obias",
        "layer fwd f32 b2 h2 q3 k3 d2 bias=f32:qk alibi sinks softcap=2 klen model=3 io seqfirst",
        "layer fwd f32 b1 h4/2 q2 k5 d2 mask=bk window=2,1 dropout=0.3 model=2 separate=3,4 biases",
        "layer fwd f32 b2 h1 q4 k3 d3 qlen model=4 cross=4 packed io biases",
    };

    for (size_t n = 0; n < sizeof layers / sizeof *layers; n++)
        differences_agree(f, layers[n], 1 + n);
}
