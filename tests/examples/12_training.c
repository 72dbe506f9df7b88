/* SPDX-License-Identifier: Apache-2.0 */
/* 12: training. A model of one layer learns to write a sequence backwards. It can't without
 * attention, since the token at a place says nothing about the one that belongs there. Tokens
 * and places have vectors that are learnt, and the layer mixes them. A matrix turns the result
 * into scores of tokens, and Adam follows the gradients. Everything large happens on the device. */
#include "backwards.h"
#include "example.h"

enum { ROWS = ALL_ROWS };
static const struct places places = {0, LENGTH};

/* All parameters lie in one array, and their gradients in another of the same plan: first vectors of tokens (TOKENS,
 * MODEL) and of places (LENGTH, MODEL). */
enum {
    W_QKV = LAYER,                     /* (3 * MODEL, MODEL) */
    B_QKV = W_QKV + 3 * MODEL * MODEL, /* (3 * MODEL) */
    W_O = B_QKV + 3 * MODEL,           /* (MODEL, MODEL) */
    B_O = W_O + MODEL * MODEL,         /* (MODEL) */
    CLASSIFIER = B_O + MODEL,          /* (TOKENS, MODEL) */
    COUNT = CLASSIFIER + TOKENS * MODEL,
};

struct model {
    struct device device;
    clattn_multihead_plan *forward, *backward;        /* of the layer */
    clattn_plan *classify, *to_layer, *to_classifier; /* scores, and the two gradients of that */
    clattn_buffer parameters, gradients, reserve;
    clattn_buffer x, y, dx, dy;    /* (BATCH, LENGTH, MODEL) */
    clattn_buffer scores, dscores; /* (BATCH, LENGTH, TOKENS) */
};

static clattn_buffer at(clattn_buffer whole, size_t offset)
{
    return (clattn_buffer){.buffer = whole.buffer, .offset = offset};
}

static clattn_multihead_parameters parameters_at(clattn_buffer whole)
{
    return (clattn_multihead_parameters){.w_q = at(whole, W_QKV),
                                         .b_q = at(whole, B_QKV),
                                         .w_o = at(whole, W_O),
                                         .b_o = at(whole, B_O)};
}

/* ---- plans and buffers ---------------------------------------------------------------------- */

static clattn_multihead_plan *plan_layer(const struct device *d, const char *text, size_t *reserve)
{
    clattn_multihead_info info = {.struct_size = sizeof info};
    clattn_multihead_plan *plan;
    clattn_multihead layer;

    check(clattn_multihead_parse(text, &layer, NULL, 0) == CLATTN_SUCCESS, "parse");
    check(clattn_multihead_plan_create(d->context, &layer, 0, &plan) == CLATTN_SUCCESS, "plan");
    check(clattn_multihead_plan_describe(plan, &info) == CLATTN_SUCCESS, "describe");
    *reserve = info.reserve_bytes;
    return plan;
}

static void open_model(struct model *m)
{
    const struct device *d = &m->device;
    size_t reserve;

    m->device = open_device();
    m->forward = plan_layer(d, "layer fwd f32 b32 h2 q8 d16 model=32 packed biases obias training",
                            &reserve);
    m->backward =
        plan_layer(d, "layer bwd f32 b32 h2 q8 d16 model=32 packed biases obias", &reserve);
    /* scores = y c^T; dy = dscores c; dc = dscores^T y, with dscores read along its columns. */
    m->classify = plan_of(d, "proj f32 q256 d32/10 w=oi");
    m->to_layer = plan_of(d, "proj f32 q256 d10/32");
    m->to_classifier = plan_of(d, "proj f32 q10 d256/32 x=2560.2560.1.10");

    m->parameters = make_buffer(d, COUNT, NULL);
    m->gradients = make_buffer(d, COUNT, NULL);
    m->reserve = make_buffer(d, reserve / sizeof(float), NULL);
    m->x = make_buffer(d, ROWS * MODEL, NULL);
    m->y = make_buffer(d, ROWS * MODEL, NULL);
    m->dx = make_buffer(d, ROWS * MODEL, NULL);
    m->dy = make_buffer(d, ROWS * MODEL, NULL);
    m->scores = make_buffer(d, ROWS * TOKENS, NULL);
    m->dscores = make_buffer(d, ROWS * TOKENS, NULL);
}

static void close_model(struct model *m)
{
    const clattn_buffer buffers[] = {m->parameters, m->gradients, m->reserve, m->x,      m->y,
                                     m->dx,         m->dy,        m->scores,  m->dscores};

    for (size_t n = 0; n < sizeof buffers / sizeof *buffers; n++)
        clReleaseMemObject(buffers[n].buffer);
    clattn_multihead_plan_release(m->forward);
    clattn_multihead_plan_release(m->backward);
    clattn_plan_release(m->classify);
    clattn_plan_release(m->to_layer);
    clattn_plan_release(m->to_classifier);
    close_device(&m->device);
}

/* ---- a step --------------------------------------------------------------------------------- */

/* Scores of tokens for each place of x. */
static void run_forward(const struct model *m)
{
    const clattn_multihead_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                      .in.x = m->x,
                                                      .parameters = parameters_at(m->parameters),
                                                      .y = m->y,
                                                      .reserve = m->reserve};

    check(clattn_multihead_forward(m->forward, m->device.queue, &tensors, 0, NULL, NULL) ==
              CLATTN_SUCCESS,
          "forward");
    project(&m->device, m->classify, m->y, at(m->parameters, CLASSIFIER), m->scores);
}

/* From the scores' gradient to that of all parameters and of x. */
static void run_backward(const struct model *m)
{
    const clattn_multihead_backward_tensors tensors = {.struct_size = sizeof tensors,
                                                       .in.x = m->x,
                                                       .parameters = parameters_at(m->parameters),
                                                       .reserve = m->reserve,
                                                       .dy = m->dy,
                                                       .dx = m->dx,
                                                       .gradients = parameters_at(m->gradients)};

    project(&m->device, m->to_classifier, m->dscores, m->y, at(m->gradients, CLASSIFIER));
    project(&m->device, m->to_layer, m->dscores, at(m->parameters, CLASSIFIER), m->dy);
    check(clattn_multihead_backward(m->backward, m->device.queue, &tensors, 0, NULL, NULL) ==
              CLATTN_SUCCESS,
          "backward");
}

/* One batch of random sequences; the loss before the step. */
static float train(const struct model *m, float *parameters, int step, int *right)
{
    static float x[ROWS * MODEL], scores[ROWS * TOKENS], gradients[COUNT], moments[2][COUNT];
    const struct device *d = &m->device;
    int tokens[ROWS];

    for (int r = 0; r < ROWS; r++)
        tokens[r] = (int)(draw() * TOKENS);
    embed(places, parameters, tokens, x);
    write_buffer(d, m->parameters, COUNT, parameters);
    write_buffer(d, m->x, ROWS * MODEL, x);
    run_forward(m);
    read_buffer(d, m->scores, ROWS * TOKENS, scores);
    const float loss = loss_of(places, scores, tokens, right);

    write_buffer(d, m->dscores, ROWS * TOKENS, scores);
    run_backward(m);
    read_buffer(d, m->gradients, COUNT, gradients);
    read_buffer(d, m->dx, ROWS * MODEL, x);
    embed_backward(places, x, tokens, gradients);
    adam(COUNT, parameters, gradients, step, moments[0], moments[1]);
    return loss;
}

int main(void)
{
    static float parameters[COUNT];
    float first = 0.0f, last = 0.0f;
    struct model m;
    int right = 0;

    for (int n = 0; n < COUNT; n++)
        parameters[n] = n < W_QKV ? draw() - 0.5f : 0.4f * (draw() - 0.5f);
    open_model(&m);
    for (int step = 1; step <= STEPS; step++) {
        last = train(&m, parameters, step, &right);
        first = step == 1 ? last : first;
        if (step == 1 || step % 10 == 0)
            printf("step %2d: loss %.4f, %5.1f %% right\n", step, (double)last,
                   100.0 * right / ROWS);
    }
    check(first > 2.0f && last < 0.1f * first, "learning");
    check(right > ROWS * 9 / 10, "writing backwards");
    close_model(&m);
    return 0;
}
