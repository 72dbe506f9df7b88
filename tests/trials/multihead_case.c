/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/multihead_case.h"

#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[NUM_LAYER_TENSORS] = {
#define TENSOR(ID, name) [LAYER_##ID] = name,
    LAYER_TENSORS(TENSOR)
#undef TENSOR
};

static const char *text_of(const clattn_multihead *layer)
{
    static char text[512];

    clattn_multihead_print(layer, text, sizeof text, NULL);
    return text;
}

clattn_multihead layer_parsed(const char *text)
{
    clattn_multihead layer;
    char reason[256];

    cr_assert(clattn_multihead_parse(text, &layer, reason, sizeof reason) == CLATTN_SUCCESS,
              "'%s': %s", text, reason);
    cr_assert(reason[0] == '\0');
    return layer;
}

clattn_multihead layer_backward(const clattn_multihead *layer)
{
    clattn_multihead backward = *layer;

    backward.attention.operation = CLATTN_BACKWARD;
    backward.attention.dbias = layer->attention.bias;
    backward.attention.dslopes = layer->attention.alibi;
    backward.attention.dsinks = layer->attention.sinks;
    backward.attention.dfunction = layer_elements(layer, LAYER_DFUNCTION) > 0;
    backward.weights = CLATTN_WEIGHTS_NONE;
    return backward;
}

clattn_multihead_plan *layer_plan(struct fixture *f, const clattn_multihead *layer)
{
    clattn_multihead_plan *plan;
    const clattn_status status = clattn_multihead_plan_create(f->context, layer, 0, &plan);

    cr_assert(status == CLATTN_SUCCESS, "'%s': %s, %s", text_of(layer),
              clattn_status_string(status), f->log.last);
    return plan;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Weights keep the size of what they multiply, about 1. */
static double draw(struct rng *r, const clattn_multihead *layer, const enum layer_tensor id)
{
    const size_t inputs[4] = {layer->model, layer->context_model, layer->values_model,
                              layer->attention.heads * layer->attention.dim_v};

    if (id >= LAYER_W_Q && id <= LAYER_W_O)
        return rng_uniform(r, -2, 2) / sqrt((double)inputs[id - LAYER_W_Q]);
    if (id >= LAYER_B_Q && id <= LAYER_B_O)
        return rng_uniform(r, -0.5, 0.5);
    if (id == LAYER_BIAS && rng_one_in(r, 9))
        return -INFINITY;
    return id == LAYER_SLOPES ? rng_uniform(r, 0, 0.3) : rng_uniform(r, -1, 1);
}

static size_t longest(const clattn_multihead *layer, const enum layer_tensor id)
{
    return id == LAYER_Q_LENGTHS ? layer->attention.seq_q : layer->attention.seq_kv;
}

static void fill(struct rng *r, const clattn_multihead *layer, const enum layer_tensor id,
                 struct layer_buffer *t)
{
    unsigned char *at = t->sent + t->offset * t->element_bytes;

    if (id == LAYER_Q_LENGTHS || id == LAYER_KV_LENGTHS) {
        for (size_t n = 0; n < t->elements; n++) {
            const cl_int length = (cl_int)rng_below(r, longest(layer, id) + 2);
            memcpy(at + n * sizeof length, &length, sizeof length);
        }
        return;
    }
    if (id == LAYER_MASK) {
        for (size_t n = 0; n < t->elements; n++)
            at[n] = !rng_one_in(r, 4);
        return;
    }
    t->values = calloc(t->elements + 1, sizeof *t->values);
    cr_assert(t->values != NULL);
    for (size_t n = 0; n < t->elements; n++) {
        value_set(layer_dtype(layer, id), at, n, draw(r, layer, id));
        t->values[n] = value_get(layer_dtype(layer, id), at, n);
    }
}

static size_t element_bytes_of(const clattn_multihead *layer, const enum layer_tensor id)
{
    return id == LAYER_MASK                                  ? 1
           : id == LAYER_Q_LENGTHS || id == LAYER_KV_LENGTHS ? sizeof(cl_int)
                                                             : value_bytes(layer_dtype(layer, id));
}

static void make_room(struct layer_buffer *t, const size_t elements, const size_t element_bytes,
                      struct rng *r)
{
    *t = (struct layer_buffer){.elements = elements, .element_bytes = element_bytes};
    if (elements == 0)
        return;
    t->offset = rng_below(r, 9);
    t->bytes = (t->offset + elements + rng_below(r, 9)) * element_bytes;
    t->sent = malloc(t->bytes);
    t->got = malloc(t->bytes);
    cr_assert(t->sent && t->got);
    memset(t->sent, 0xff, t->bytes);
    memset(t->got, 0xff, t->bytes);
}

/* Returns whether operand n of the functions has floats; bfloat, which no test of layers has, is not told from half. */
static int is_float(const clattn_problem *p, int n)
{
    const clattn_function *functions[] = {p->score_function, p->mask_function};

    for (int f = 0; f < 2; f++)
        for (size_t own = 0; functions[f]; own++) {
            clattn_function_operand operand = {.struct_size = sizeof operand};
            if (clattn_function_get_operand(functions[f], own, &operand) != CLATTN_SUCCESS ||
                !operand.name)
                break;
            if (n-- == 0)
                return operand.type <= CLATTN_FUNCTION_HALF;
        }
    return 0;
}

/* Makes operand n of the functions: numbers in +-1, or small ones. */
static void make_operand(struct fixture *f, struct layer_case *c, struct rng *r, int n)
{
    const clattn_problem *p = &c->layer.attention;
    const struct tensor_shape shape = tensor_shape_of(p, (int)TENSOR_FUNCTION_0 + n);
    struct layer_buffer *t = &c->function[n];

    make_room(t, shape.extent, shape.element_bytes, r);
    for (size_t e = 0; e < t->elements; e++) {
        unsigned char *at = t->sent + (t->offset + e) * t->element_bytes;
        const cl_int small = (cl_int)rng_below(r, 8);
        if (is_float(p, n))
            value_set(t->element_bytes == 4 ? CLATTN_F32 : CLATTN_F16, at, 0,
                      rng_uniform(r, -1, 1));
        else
            memcpy(at, &small, t->element_bytes);
    }
    if (t->elements > 0)
        t->buffer = fixture_buffer(f, t->bytes, t->sent);
}

void layer_case_open(struct fixture *f, struct layer_case *c, const clattn_multihead *layer,
                     const uint64_t seed)
{
    struct rng r = rng_seed(seed);
    clattn_multihead_info info = {.struct_size = sizeof info};

    *c = (struct layer_case){.layer = *layer, .seed = seed};
    c->dropout_seed = rng_next(&r);
    c->dropout_offset = (cl_uint)rng_next(&r);
    for (int n = 0; n < NUM_LAYER_TENSORS; n++) {
        const enum layer_tensor id = (enum layer_tensor)n;
        struct layer_buffer *t = &c->tensor[n];
        make_room(t, layer_elements(layer, id), element_bytes_of(layer, id), &r);
        if (t->elements > 0 && id <= LAYER_DY)
            fill(&r, layer, id, t);
        if (t->elements > 0)
            t->buffer = fixture_buffer(f, t->bytes, t->sent);
    }
    for (int n = 0; n < CLATTN_FUNCTION_OPERANDS; n++)
        make_operand(f, c, &r, n);
    if (!layer->training)
        return;
    clattn_multihead_plan *plan = layer_plan(f, layer);
    clattn_multihead_plan_describe(plan, &info);
    clattn_multihead_plan_release(plan);
    make_room(&c->reserve, info.reserve_bytes / sizeof(cl_float), sizeof(cl_float), &r);
    if (c->reserve.elements > 0)
        c->reserve.buffer = fixture_buffer(f, c->reserve.bytes, c->reserve.sent);
}

static void close_buffer(struct layer_buffer *t)
{
    if (t->buffer)
        clReleaseMemObject(t->buffer);
    free(t->values);
    free(t->got);
    free(t->sent);
}

void layer_case_close(struct layer_case *c)
{
    for (int n = 0; n < NUM_LAYER_TENSORS; n++)
        close_buffer(&c->tensor[n]);
    for (int n = 0; n < CLATTN_FUNCTION_OPERANDS; n++)
        close_buffer(&c->function[n]);
    close_buffer(&c->reserve);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static clattn_buffer *input_place(clattn_multihead_inputs *in, clattn_multihead_parameters *w,
                                  const enum layer_tensor id)
{
    clattn_buffer *const places[LAYER_B_O + 1] = {
        &in->x,     &in->context,   &in->values,     &in->bias, &in->mask, &in->slopes,
        &in->sinks, &in->q_lengths, &in->kv_lengths, &w->w_q,   &w->w_k,   &w->w_v,
        &w->w_o,    &w->b_q,        &w->b_k,         &w->b_v,   &w->b_o};

    return places[id];
}

static clattn_buffer *forward_place(clattn_multihead_forward_tensors *t, const enum layer_tensor id)
{
    if (id <= LAYER_B_O)
        return input_place(&t->in, &t->parameters, id);
    return id == LAYER_Y ? &t->y : id == LAYER_WEIGHTS ? &t->weights : NULL;
}

static clattn_buffer *backward_place(clattn_multihead_backward_tensors *t,
                                     const enum layer_tensor id)
{
    clattn_multihead_parameters *w = &t->gradients;
    clattn_buffer *const places[] = {&t->dx,  &t->dcontext, &t->dvalues, &w->w_q,    &w->w_k,
                                     &w->w_v, &w->w_o,      &w->b_q,     &w->b_k,    &w->b_v,
                                     &w->b_o, &t->dbias,    &t->dslopes, &t->dsinks, &t->dfunction};

    if (id <= LAYER_B_O)
        return input_place(&t->in, &t->parameters, id);
    return id == LAYER_DY ? &t->dy : id >= LAYER_DX ? places[id - LAYER_DX] : NULL;
}

static clattn_buffer buffer_of(const struct layer_buffer *t)
{
    return (clattn_buffer){.buffer = t->buffer, .offset = t->buffer ? t->offset : 0};
}

struct layer_arguments layer_case_arguments(const struct layer_case *c)
{
    struct layer_arguments arguments = {.reserve = buffer_of(&c->reserve),
                                        .function_values = c->function_values,
                                        .dropout_seed = c->dropout_seed,
                                        .dropout_offset = c->dropout_offset};

    for (int id = 0; id < NUM_LAYER_TENSORS; id++)
        arguments.at[id] = buffer_of(&c->tensor[id]);
    for (int n = 0; n < CLATTN_FUNCTION_OPERANDS; n++)
        arguments.function[n] = buffer_of(&c->function[n]);
    return arguments;
}

#define FUNCTIONS(a)                                                                               \
    .function_0 = (a)->function[0], .function_1 = (a)->function[1],                                \
    .function_2 = (a)->function[2], .function_3 = (a)->function[3],                                \
    .function_4 = (a)->function[4], .function_5 = (a)->function[5],                                \
    .function_values = (a)->function_values

clattn_status layer_execute(const clattn_operation operation, const clattn_multihead_plan *plan,
                            cl_command_queue queue, const struct layer_arguments *arguments,
                            const cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    clattn_multihead_forward_tensors forward = {.struct_size = sizeof forward,
                                                FUNCTIONS(arguments),
                                                .reserve = arguments->reserve,
                                                .workspace = arguments->workspace};
    clattn_multihead_backward_tensors backward = {.struct_size = sizeof backward,
                                                  FUNCTIONS(arguments),
                                                  .reserve = arguments->reserve,
                                                  .workspace = arguments->workspace};
    const int is_backward = operation == CLATTN_BACKWARD;
    clattn_multihead_inputs *in = is_backward ? &backward.in : &forward.in;

    in->dropout_seed = arguments->dropout_seed;
    in->dropout_offset = arguments->dropout_offset;
    for (int n = 0; n < NUM_LAYER_TENSORS; n++) {
        const enum layer_tensor id = (enum layer_tensor)n;
        clattn_buffer *place =
            is_backward ? backward_place(&backward, id) : forward_place(&forward, id);
        if (place)
            *place = arguments->at[id];
    }
    if (is_backward)
        return clattn_multihead_backward(plan, queue, &backward, num_wait, wait, done);
    return clattn_multihead_forward(plan, queue, &forward, num_wait, wait, done);
}

int layer_argument_of(const clattn_operation operation, const enum layer_tensor id)
{
    const int is_output = id == LAYER_Y || id == LAYER_WEIGHTS;

    return id <= LAYER_B_O || (operation == CLATTN_BACKWARD) != is_output;
}

const char *layer_tensor_name(const enum layer_tensor id)
{
    return names[id];
}

struct layer_inputs layer_case_inputs(const struct layer_case *c)
{
    static const struct {
        enum layer_tensor from;
        enum tensor_id to;
    } bytes[] = {{LAYER_MASK, TENSOR_MASK},
                 {LAYER_Q_LENGTHS, TENSOR_Q_LENGTHS},
                 {LAYER_KV_LENGTHS, TENSOR_KV_LENGTHS}};
    struct layer_inputs in = {.options = {.dropout_seed = c->dropout_seed,
                                          .dropout_offset = c->dropout_offset,
                                          .function_values = c->function_values}};

    for (int id = 0; id <= LAYER_DY; id++)
        in.at[id] = c->tensor[id].values;
    for (size_t n = 0; n < sizeof bytes / sizeof *bytes; n++) {
        const struct layer_buffer *t = &c->tensor[bytes[n].from];
        if (t->elements > 0)
            in.options.at[bytes[n].to] = t->sent + t->offset * t->element_bytes;
    }
    for (int n = 0; n < CLATTN_FUNCTION_OPERANDS; n++)
        if (c->function[n].elements > 0)
            in.options.at[(int)TENSOR_FUNCTION_0 + n] =
                c->function[n].sent + c->function[n].offset * c->function[n].element_bytes;
    return in;
}

/* ---- results --------------------------------------------------------------------------------- */

static void read_one(struct fixture *f, const struct layer_case *c, const char *name,
                     const int written, struct layer_buffer *t)
{
    const size_t begin = t->offset * t->element_bytes;
    const size_t end = begin + (written ? t->elements * t->element_bytes : 0);

    if (!t->buffer)
        return;
    fixture_read(f, t->buffer, t->bytes, t->got);
    cr_assert(memcmp(t->got, t->sent, begin) == 0 &&
                  memcmp(t->got + end, t->sent + end, t->bytes - end) == 0,
              "bytes of %s have changed that are not to be written; '%s', seed %llu", name,
              text_of(&c->layer), (unsigned long long)c->seed);
}

void layer_case_read(struct fixture *f, struct layer_case *c)
{
    for (int id = 0; id < NUM_LAYER_TENSORS; id++)
        read_one(f, c, names[id], id > LAYER_DY, &c->tensor[id]);
    for (int n = 0; n < CLATTN_FUNCTION_OPERANDS; n++)
        read_one(f, c, "an operand of a function", 0, &c->function[n]);
    read_one(f, c, "reserve", 1, &c->reserve);
}

void layer_case_check(const struct layer_case *c, const uint64_t tensors)
{
    const struct layer_inputs in = layer_case_inputs(c);
    struct layer_outputs want;

    cr_assert(reference_layer_open(&c->layer, &in, &want), "out of memory");
    for (int id = LAYER_Y; id < NUM_LAYER_TENSORS; id++) {
        const struct layer_buffer *t = &c->tensor[id];
        for (size_t n = 0; tensors & UINT64_C(1) << id && n < t->elements; n++) {
            const double got =
                value_get(layer_dtype(&c->layer, (enum layer_tensor)id), t->got, t->offset + n);
            cr_assert(within(got, want.at[id][n]),
                      "%s[%zu] is %.9g, not %.9g +- %.2g; '%s', seed %llu", names[id], n, got,
                      want.at[id][n].value, want.at[id][n].bound, text_of(&c->layer),
                      (unsigned long long)c->seed);
        }
    }
    reference_layer_close(&want);
}

void layer_case_pass(struct fixture *f, const clattn_multihead *layer, const uint64_t seed)
{
    layer_case_pass_with(f, layer, seed, NULL);
}

void layer_case_pass_with(struct fixture *f, const clattn_multihead *layer, const uint64_t seed,
                          const clattn_function_values *values)
{
    struct layer_case c;

    layer_case_open(f, &c, layer, seed);
    c.function_values = values;
    const struct layer_arguments arguments = layer_case_arguments(&c);
    for (int n = 0; n <= (layer->training != 0); n++) {
        const clattn_multihead planned = n ? layer_backward(layer) : *layer;
        clattn_multihead_plan *plan = layer_plan(f, &planned);
        const clattn_status status =
            layer_execute(planned.attention.operation, plan, f->queue, &arguments, 0, NULL, NULL);
        cr_assert(status == CLATTN_SUCCESS, "'%s': %s, %s", text_of(&planned),
                  clattn_status_string(status), f->log.last);
        clattn_multihead_plan_release(plan);
    }
    layer_case_read(f, &c);
    layer_case_check(&c, layer->training ? LAYER_ALL_OUTPUTS : LAYER_FORWARD_OUTPUTS);
    layer_case_close(&c);
}
