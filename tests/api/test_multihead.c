/* SPDX-License-Identifier: Apache-2.0 */
/* Layers through the public API against the reference. */
#include "tests/faults/faults.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(multihead, .init = unoptimised, .timeout = 300);

static void run(struct fixture *f, const clattn_multihead_plan *plan,
                const clattn_operation operation, const struct layer_case *c)
{
    const struct layer_arguments arguments = layer_case_arguments(c);

    cr_assert(layer_execute(operation, plan, f->queue, &arguments, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", f->log.last);
}

static void pass(struct fixture *f, const char *text, const uint64_t seed)
{
    const clattn_multihead layer = layer_parsed(text);

    layer_case_pass(f, &layer, seed);
}

/* ---- random layers --------------------------------------------------------------------------- */

/* The options that programs depend on. Sizes, which hardly matter to them, are drawn at random.
 * All but the first kind vary less, so that they need few programs. */
static const struct kind {
    const char *attention; /* heads, dims and options are kept; other sizes are drawn */
    int may_infer;         /* not only training */
    int weights;           /* may be wanted */
} kinds[] = {
    {"fwd f32 h2 d8 q1", 1, 0},
    {"fwd f32 h4/2 d5/12 q1 window=4,9 bias=f32:qk mask=bk alibi sinks softcap=3 klen dropout=0.2",
     0, 1},
    {"fwd f16 h2/1 d8 q1 causal=br", 0, 0},
    {"fwd bf16 h3 d20/6 q1 qlen", 0, 0},
};

static void draw_sources(struct rng *r, clattn_multihead *layer)
{
    clattn_problem *p = &layer->attention;

    layer->source = (clattn_source)rng_below(r, 3);
    layer->model = RNG_PICK(r, 1, 3, 8, 13, 32, 33);
    layer->packed = rng_one_in(r, 2);
    layer->context_model = layer->values_model = layer->model;
    if (layer->source == CLATTN_SELF)
        p->seq_kv = p->seq_q;
    else if (!layer->packed)
        layer->context_model = layer->values_model = RNG_PICK(r, 1, 5, 16, 19);
    if (layer->source == CLATTN_SEPARATE && !layer->packed)
        layer->values_model = RNG_PICK(r, 2, 7, 24);
    layer->output = rng_one_in(r, 2) ? layer->model : RNG_PICK(r, 1, 6, 17);
}

static clattn_multihead draw(struct rng *r, const struct kind *kind)
{
    clattn_multihead layer;

    clattn_multihead_init(&layer);
    layer.attention = fixture_problem(kind->attention);
    clattn_problem *p = &layer.attention;
    p->batch = RNG_PICK(r, 1, 2, 3);
    p->seq_q = kind->may_infer ? RNG_PICK(r, 1, 2, 9, 16, 18) : RNG_PICK(r, 1, 2, 5, 9, 16);
    p->seq_kv = kind->may_infer ? RNG_PICK(r, 1, 3, 7, 17, 20) : RNG_PICK(r, 1, 3, 4, 7, 15);
    draw_sources(r, &layer);
    if (p->bias)
        clattn_layout_broadcast(p, 2, (size_t[]){p->seq_q, p->seq_kv}, &p->bias_layout);
    if (p->mask)
        clattn_layout_broadcast(p, 4, (size_t[]){p->batch, 1, 1, p->seq_kv}, &p->mask_layout);
    const int free_choice = p->dtype == CLATTN_F32;
    layer.order = free_choice ? (clattn_weight_order)rng_below(r, 2) : CLATTN_OUT_IN;
    layer.qkv_biases = !free_choice || rng_one_in(r, 2);
    layer.output_bias = !free_choice || rng_one_in(r, 2);
    layer.seq_first = rng_one_in(r, 3);
    layer.training = !kind->may_infer || !rng_one_in(r, 3);
    if (kind->weights)
        layer.weights = (clattn_weights_out)rng_below(r, 3);
    return layer;
}

DeviceTest(multihead, random_layers)
{
    enum { LAYERS = 12 };
    struct rng r = rng_seed(5);

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int n = 0; n < LAYERS; n++) {
            const clattn_multihead layer = draw(&r, &kinds[kind]);
            const uint64_t seed = rng_next(&r);
            if (run_takes(kind + (uint64_t)n, 6)) /* the others in other runs */
                layer_case_pass(f, &layer, seed);
        }
}

/* Functions of the caller's, their operands and parameters in both directions, and the gradient of a table. */
DeviceTest(multihead, functions)
{
    static const struct {
        const char *layer;
        clattn_function_values values;
    } cases[] = {
        {"layer fwd f32 b2 h4/2 q9 d8 model=12 packed biases training score=t5", {{0}, {0}}},
        {"layer fwd f32 b2 h2 q40 k130 d8 model=7 cross=5 seqfirst training visible=sliding_window",
         {{9, 2}, {0}}},
        {"layer fwd f16 b2 h3 q11 k7 d8 model=6 separate=4,5 training score=temperature "
         "visible=documents klen",
         {{0, 0}, {0}}},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_multihead layer = layer_parsed(cases[n].layer);
        if (run_takes_of(n, sizeof cases / sizeof *cases, 2))
            layer_case_pass_with(f, &layer, n + 1, &cases[n].values);
    }
}

/* An operand that a function has and the call does not is named. */
DeviceTest(multihead, an_operand_is_missing)
{
    const clattn_multihead layer = layer_parsed("layer fwd f32 h2 q3 d4 model=4 score=alibi");
    struct layer_case c;

    layer_case_open(f, &c, &layer, 1);
    struct layer_arguments arguments = layer_case_arguments(&c);
    clattn_multihead_plan *plan = layer_plan(f, &layer);
    arguments.function[0].buffer = NULL;
    cr_expect(layer_execute(CLATTN_FORWARD, plan, f->queue, &arguments, 0, NULL, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(f->log.last, "function_0"), "%s", f->log.last);
    clattn_multihead_plan_release(plan);
    layer_case_close(&c);
}

/* No batch, no query, no key: gradients of weights that no row used are zero, not left alone. */
DeviceTest(multihead, empty_sizes)
{
    pass(f, "layer fwd f32 b0 h2 q3 k3 d8 model=5 packed biases obias training", 1);
    pass(f, "layer fwd f32 b2 h2 q0 k3 d8 model=5 packed cross=5 biases obias training", 2);
    pass(f, "layer fwd f32 b2 h2 q3 k0 d8 model=5 packed io cross=5 biases obias training", 3);
    pass(f, "layer fwd f32 b2 h2 q3 k0 d8 model=5 separate=3,4 obias training weights=mean", 4);
    pass(f, "layer fwd f32 b2 h2 q0 k0 d8 model=5 weights=heads", 5);
}

/* ---- properties ------------------------------------------------------------------------------ */

/* Weights of the heads and their mean: no sink takes a share, so rows sum to one. */
DeviceTest(multihead, weights_sum_to_one)
{
    static const char *const layers[] = {
        "layer fwd f32 b2 h3 q5 k7 d8 model=6 cross=6 weights=heads",
        "layer fwd f32 b2 h3 q5 k7 d8 model=6 cross=6 weights=mean",
    };

    for (size_t n = 0; n < sizeof layers / sizeof *layers; n++) {
        const clattn_multihead layer = layer_parsed(layers[n]);
        struct layer_case c;
        layer_case_open(f, &c, &layer, 3);
        clattn_multihead_plan *plan = layer_plan(f, &layer);
        run(f, plan, CLATTN_FORWARD, &c);
        layer_case_read(f, &c);
        layer_case_check(&c, LAYER_FORWARD_OUTPUTS);
        const struct layer_buffer *w = &c.tensor[LAYER_WEIGHTS];
        for (size_t row = 0; row < w->elements; row += 7) {
            double sum = 0.0;
            for (size_t j = 0; j < 7; j++)
                sum += value_get(CLATTN_F32, w->got, w->offset + row + j);
            cr_assert(fabs(sum - 1.0) <= 16 * 0x1p-24, "row %zu sums to %.9g", row / 7, sum);
        }
        clattn_multihead_plan_release(plan);
        layer_case_close(&c);
    }
}

/* Padding of a context, whatever it holds, never reaches y. */
DeviceTest(multihead, padding_stays_out)
{
    const clattn_multihead layer =
        layer_parsed("layer fwd f32 b2 h2 q3 k6 d8 klen model=5 cross=4");
    struct layer_case c;

    layer_case_open(f, &c, &layer, 8);
    struct layer_buffer *lengths = &c.tensor[LAYER_KV_LENGTHS], *context = &c.tensor[LAYER_CONTEXT];
    const cl_int keys[2] = {2, 5};
    memcpy(lengths->sent + lengths->offset * sizeof *keys, keys, sizeof keys);
    for (size_t b = 0; b < 2; b++)
        for (size_t n = (size_t)keys[b] * 4; n < 6 * 4; n++)
            value_set(CLATTN_F32, context->sent, context->offset + b * 24 + n,
                      (double)(n % 2 ? NAN : INFINITY));
    for (int n = 0; n < 2; n++) {
        struct layer_buffer *t = n ? lengths : context;
        clReleaseMemObject(t->buffer);
        t->buffer = fixture_buffer(f, t->bytes, t->sent);
    }
    clattn_multihead_plan *plan = layer_plan(f, &layer);
    run(f, plan, CLATTN_FORWARD, &c);
    layer_case_read(f, &c);
    layer_case_check(&c, LAYER_FORWARD_OUTPUTS);
    clattn_multihead_plan_release(plan);
    layer_case_close(&c);
}

/* ---- gradients that are not wanted ----------------------------------------------------------- */

static long commands_of(struct fixture *f, const clattn_multihead_plan *plan,
                        const struct layer_arguments *arguments)
{
    const long before = faults_commands();

    cr_assert(layer_execute(CLATTN_BACKWARD, plan, f->queue, arguments, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    return faults_commands() - before;
}

/* Each gradient alone is right, all others stay untouched, and less runs than for all; those of the
 * output's parameters need one product each. */
DeviceTest(multihead, gradients_one_by_one)
{
    const clattn_multihead layer = layer_parsed(
        "layer fwd f32 b2 h2/1 q3 k6 d8 model=5 separate=4,7 output=3 biases obias training");
    const clattn_multihead gradients = layer_backward(&layer);

    clattn_multihead_plan *forward = layer_plan(f, &layer), *plan = layer_plan(f, &gradients);
    for (int wanted = LAYER_DX; wanted <= LAYER_DB_O; wanted++) {
        struct layer_case c;
        layer_case_open(f, &c, &layer, (uint64_t)wanted);
        run(f, forward, CLATTN_FORWARD, &c);
        const struct layer_arguments all = layer_case_arguments(&c);
        struct layer_arguments one = all;
        for (int id = LAYER_DX; id <= LAYER_DB_O; id++)
            if (id != wanted)
                one.at[id] = (clattn_buffer){.buffer = NULL};
        const long commands = commands_of(f, plan, &one);
        layer_case_read(f, &c);
        layer_case_check(&c, UINT64_C(1) << wanted);
        for (int id = LAYER_DX; id <= LAYER_DB_O; id++)
            cr_assert((memcmp(c.tensor[id].got, c.tensor[id].sent, c.tensor[id].bytes) == 0) ==
                      (id != wanted));
        const long most = commands_of(f, plan, &all);
        cr_assert(commands < most, "%ld commands for one gradient, %ld for all", commands, most);
        cr_assert(commands <= 2 || (wanted != LAYER_DW_O && wanted != LAYER_DB_O));
        layer_case_close(&c);
    }
    clattn_multihead_plan_release(plan);
    clattn_multihead_plan_release(forward);
}
