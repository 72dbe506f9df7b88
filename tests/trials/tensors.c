#include "tests/trials/tensors.h"

#include "tests/support/storage.h"
#include <stddef.h>

static const char *const names[NUM_TENSORS] = {
    "q",   "k",      "v",  "o",  "bias", "mask", "slopes", "sinks",   "q_lengths", "kv_lengths",
    "lse", "scores", "do", "dq", "dk",   "dv",   "dbias",  "dslopes", "dsinks"};

static void set_sizes(struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d)
{
    const size_t size[4] = {b, h, i, d};

    for (int n = 0; n < 4; n++)
        s->size[n] = size[n];
}

static void set_packed(struct tensor_shape *s)
{
    s->stride[3] = 1;
    for (int n = 2; n >= 0; n--)
        s->stride[n] = s->stride[n + 1] * s->size[n + 1];
}

/* In q, k, v, o and their gradients four zeros stand for the packed tensor, in bias and mask for one
 * value. */
static void set_layout(struct tensor_shape *s, const clattn_layout *layout, const int zero_packs)
{
    int all_zero = 1;

    for (int n = 0; n < 4; n++) {
        s->stride[n] = layout->stride[n];
        all_zero = all_zero && layout->stride[n] == 0;
    }
    if (zero_packs && all_zero)
        set_packed(s);
}

static void set_list(struct tensor_shape *s, const int given, const size_t length)
{
    s->present = given;
    set_sizes(s, 1, 1, 1, length);
    set_packed(s);
}

static void set_rows(struct tensor_shape *s, const clattn_problem *p, const size_t dim,
                     const clattn_layout *layout)
{
    s->dtype = p->dtype;
    set_sizes(s, p->batch, p->heads, p->seq_q, dim);
    set_layout(s, layout, 1);
}

static void set_keys(struct tensor_shape *s, const clattn_problem *p, const size_t dim,
                     const clattn_layout *layout)
{
    s->dtype = p->dtype;
    set_sizes(s, p->batch, p->kv_heads, p->seq_kv, dim);
    set_layout(s, layout, 1);
}

/* Where the bias broadcasts, even over nothing, its gradient has one element. */
static void set_bias(struct tensor_shape *s, const clattn_problem *p, const int is_gradient)
{
    s->dtype = p->bias_dtype;
    set_sizes(s, p->batch, p->heads, p->seq_q, p->seq_kv);
    set_layout(s, &p->bias_layout, 0);
    for (int n = 0; is_gradient && n < 4; n++)
        if (s->stride[n] == 0)
            s->size[n] = 1;
}

static int is_written(const clattn_problem *p, const enum tensor_id id)
{
    if (p->operation == CLATTN_BACKWARD)
        return id >= TENSOR_DQ;
    return id == TENSOR_O || id == TENSOR_LSE || id == TENSOR_SCORES;
}

struct tensor_shape tensor_shape_of(const clattn_problem *p, const enum tensor_id id)
{
    const int backward = p->operation == CLATTN_BACKWARD;
    struct tensor_shape s = {.name = names[id], .present = id < TENSOR_DO || backward};

    switch (id) {
    case TENSOR_Q:
        set_rows(&s, p, p->dim_qk, &p->q);
        break;
    case TENSOR_K:
        s.cache = p->k_cache;
        set_keys(&s, p, p->dim_qk, &p->k);
        break;
    case TENSOR_V:
        s.cache = p->v_cache;
        set_keys(&s, p, p->dim_v, &p->v);
        break;
    case TENSOR_O:
        set_rows(&s, p, p->dim_v, &p->o);
        break;
    case TENSOR_DO:
        set_rows(&s, p, p->dim_v, &p->d_o);
        break;
    case TENSOR_DQ:
        set_rows(&s, p, p->dim_qk, &p->dq);
        break;
    case TENSOR_DK:
        set_keys(&s, p, p->dim_qk, &p->dk);
        break;
    case TENSOR_DV:
        set_keys(&s, p, p->dim_v, &p->dv);
        break;
    case TENSOR_BIAS:
        s.present = p->bias;
        set_bias(&s, p, 0);
        break;
    case TENSOR_DBIAS:
        s.present = p->dbias;
        set_bias(&s, p, 1);
        break;
    case TENSOR_MASK:
        s.present = p->mask;
        set_sizes(&s, p->batch, p->heads, p->seq_q, p->seq_kv);
        set_layout(&s, &p->mask_layout, 0);
        break;
    case TENSOR_SLOPES:
        set_list(&s, p->alibi, p->heads);
        break;
    case TENSOR_SINKS:
        set_list(&s, p->sinks, p->heads);
        break;
    case TENSOR_DSLOPES:
        set_list(&s, p->dslopes, p->heads);
        break;
    case TENSOR_DSINKS:
        set_list(&s, p->dsinks, p->heads);
        break;
    case TENSOR_Q_LENGTHS:
        set_list(&s, p->q_lengths, p->batch);
        break;
    case TENSOR_KV_LENGTHS:
        set_list(&s, p->kv_lengths, p->batch);
        break;
    case TENSOR_LSE:
        s.present = p->lse || backward;
        set_sizes(&s, p->batch, p->heads, 1, p->seq_q);
        set_packed(&s);
        break;
    case TENSOR_SCORES:
        s.present = p->scores != CLATTN_SCORES_NONE;
        set_sizes(&s, p->batch, p->heads, p->seq_q, p->seq_kv);
        set_packed(&s);
        break;
    case NUM_TENSORS:
        break;
    }
    s.element_bytes = id == TENSOR_MASK ? 1 : value_bytes(s.dtype); /* a cl_int's are a float's */
    if (s.cache != CLATTN_CACHE_PLAIN)
        s.element_bytes = value_block_bytes(s.cache);
    s.written = is_written(p, id);
    s.extent = 1;
    for (int n = 0; n < 4; n++) {
        s.present = s.present && s.size[n] != 0;
        s.extent += (s.size[n] - 1) * s.stride[n];
    }
    s.present = s.present != 0;
    if (!s.present)
        s.extent = 0;
    return s;
}

size_t tensor_index(const struct tensor_shape *s, const size_t b, const size_t h, const size_t i,
                    const size_t d)
{
    return b * s->stride[0] + h * s->stride[1] + i * s->stride[2] + d * s->stride[3];
}

size_t tensor_bytes(const struct tensor_shape *s, const size_t elements)
{
    return elements / (s->cache == CLATTN_CACHE_PLAIN ? 1 : 32) * s->element_bytes;
}

double tensor_load(const struct tensor_shape *s, const void *base, const size_t index)
{
    return s->cache == CLATTN_CACHE_PLAIN ? value_get(s->dtype, base, index)
                                          : value_get_quantized(s->cache, base, index);
}

clattn_buffer *tensor_buffer(clattn_forward *tensors, const enum tensor_id id)
{
    clattn_buffer *const buffers[NUM_TENSORS] = {
        &tensors->q,         &tensors->k,          &tensors->v,      &tensors->o,
        &tensors->bias,      &tensors->mask,       &tensors->slopes, &tensors->sinks,
        &tensors->q_lengths, &tensors->kv_lengths, &tensors->lse,    &tensors->scores};

    return buffers[id];
}

clattn_buffer *tensor_backward_buffer(clattn_backward *tensors, const enum tensor_id id)
{
    clattn_buffer *const buffers[NUM_TENSORS] = {
        &tensors->q,         &tensors->k,          &tensors->v,      &tensors->o,
        &tensors->bias,      &tensors->mask,       &tensors->slopes, &tensors->sinks,
        &tensors->q_lengths, &tensors->kv_lengths, &tensors->lse,    NULL,
        &tensors->d_o,       &tensors->dq,         &tensors->dk,     &tensors->dv,
        &tensors->dbias,     &tensors->dslopes,    &tensors->dsinks};

    return buffers[id];
}

clattn_status tensor_execute(const clattn_operation operation, const clattn_plan *plan,
                             cl_command_queue queue, const struct tensor_arguments *tensors,
                             const cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    clattn_forward forward = {.struct_size = sizeof forward,
                              .workspace = tensors->workspace,
                              .dropout_seed = tensors->dropout_seed,
                              .dropout_offset = tensors->dropout_offset};
    clattn_backward backward = {.struct_size = sizeof backward,
                                .workspace = tensors->workspace,
                                .dropout_seed = tensors->dropout_seed,
                                .dropout_offset = tensors->dropout_offset};

    for (int id = 0; id < NUM_TENSORS; id++) {
        clattn_buffer *place = operation == CLATTN_BACKWARD
                                   ? tensor_backward_buffer(&backward, (enum tensor_id)id)
                                   : tensor_buffer(&forward, (enum tensor_id)id);
        if (place)
            *place = tensors->at[id];
    }
    if (operation == CLATTN_BACKWARD)
        return clattn_attention_backward(plan, queue, &backward, num_wait, wait, done);
    return clattn_attention_forward(plan, queue, &forward, num_wait, wait, done);
}

static const float *floats(const struct tensor_view *view, const enum tensor_id id)
{
    return (const float *)(const void *)view->at[id];
}

static const cl_int *ints(const struct tensor_view *view, const enum tensor_id id)
{
    return (const cl_int *)(const void *)view->at[id];
}

clattn_host_forward tensor_host_forward(const struct tensor_view *view)
{
    return (clattn_host_forward){
        .struct_size = sizeof(clattn_host_forward),
        .q = view->at[TENSOR_Q],
        .k = view->at[TENSOR_K],
        .v = view->at[TENSOR_V],
        .o = (void *)view->at[TENSOR_O],
        .bias = view->at[TENSOR_BIAS],
        .mask = view->at[TENSOR_MASK],
        .slopes = floats(view, TENSOR_SLOPES),
        .sinks = floats(view, TENSOR_SINKS),
        .q_lengths = ints(view, TENSOR_Q_LENGTHS),
        .kv_lengths = ints(view, TENSOR_KV_LENGTHS),
        .lse = (float *)floats(view, TENSOR_LSE),
        .scores = (float *)floats(view, TENSOR_SCORES),
        .dropout_seed = view->dropout_seed,
        .dropout_offset = view->dropout_offset,
    };
}

clattn_host_backward tensor_host_backward(const struct tensor_view *view)
{
    return (clattn_host_backward){
        .struct_size = sizeof(clattn_host_backward),
        .q = view->at[TENSOR_Q],
        .k = view->at[TENSOR_K],
        .v = view->at[TENSOR_V],
        .o = view->at[TENSOR_O],
        .lse = floats(view, TENSOR_LSE),
        .d_o = view->at[TENSOR_DO],
        .bias = view->at[TENSOR_BIAS],
        .mask = view->at[TENSOR_MASK],
        .slopes = floats(view, TENSOR_SLOPES),
        .sinks = floats(view, TENSOR_SINKS),
        .q_lengths = ints(view, TENSOR_Q_LENGTHS),
        .kv_lengths = ints(view, TENSOR_KV_LENGTHS),
        .dq = (void *)view->at[TENSOR_DQ],
        .dk = (void *)view->at[TENSOR_DK],
        .dv = (void *)view->at[TENSOR_DV],
        .dbias = (void *)view->at[TENSOR_DBIAS],
        .dslopes = (float *)floats(view, TENSOR_DSLOPES),
        .dsinks = (float *)floats(view, TENSOR_DSINKS),
        .dropout_seed = view->dropout_seed,
        .dropout_offset = view->dropout_offset,
    };
}

clattn_status tensor_execute_host(clattn_context *context, const clattn_problem *p,
                                  const clattn_plan_options *options,
                                  const struct tensor_view *view)
{
    const clattn_host_forward forward = tensor_host_forward(view);
    const clattn_host_backward backward = tensor_host_backward(view);

    return p->operation == CLATTN_BACKWARD
               ? clattn_attention_backward_host(context, p, options, &backward)
               : clattn_attention_forward_host(context, p, options, &forward);
}
