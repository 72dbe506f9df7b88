#include "tensors.h"

#include "storage.h"
#include <stddef.h>

static const char *const names[NUM_TENSORS] = {"q",         "k",          "v",      "o",
                                               "bias",      "mask",       "slopes", "sinks",
                                               "q_lengths", "kv_lengths", "lse",    "scores"};

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

/* In q, k, v and o four zeros stand for the packed tensor, in bias and mask for one value. */
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

struct tensor_shape tensor_shape_of(const clattn_problem *p, const enum tensor_id id)
{
    struct tensor_shape s = {.name = names[id], .present = 1, .element_bytes = 4};

    switch (id) {
    case TENSOR_Q:
        set_sizes(&s, p->batch, p->heads, p->seq_q, p->dim_qk);
        set_layout(&s, &p->q, 1);
        break;
    case TENSOR_K:
        set_sizes(&s, p->batch, p->kv_heads, p->seq_kv, p->dim_qk);
        set_layout(&s, &p->k, 1);
        break;
    case TENSOR_V:
        set_sizes(&s, p->batch, p->kv_heads, p->seq_kv, p->dim_v);
        set_layout(&s, &p->v, 1);
        break;
    case TENSOR_O:
        set_sizes(&s, p->batch, p->heads, p->seq_q, p->dim_v);
        set_layout(&s, &p->o, 1);
        break;
    case TENSOR_BIAS:
        s.present = p->bias;
        s.dtype = p->bias_dtype;
        set_sizes(&s, p->batch, p->heads, p->seq_q, p->seq_kv);
        set_layout(&s, &p->bias_layout, 0);
        break;
    case TENSOR_MASK:
        s.present = p->mask;
        s.element_bytes = 1;
        set_sizes(&s, p->batch, p->heads, p->seq_q, p->seq_kv);
        set_layout(&s, &p->mask_layout, 0);
        break;
    case TENSOR_SLOPES:
        set_list(&s, p->alibi, p->heads);
        break;
    case TENSOR_SINKS:
        set_list(&s, p->sinks, p->heads);
        break;
    case TENSOR_Q_LENGTHS:
        set_list(&s, p->q_lengths, p->batch);
        break;
    case TENSOR_KV_LENGTHS:
        set_list(&s, p->kv_lengths, p->batch);
        break;
    case TENSOR_LSE:
        s.present = p->lse;
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
    if (id <= TENSOR_O)
        s.dtype = p->dtype;
    if (id <= TENSOR_BIAS)
        s.element_bytes = storage_bytes(s.dtype);
    s.written = id == TENSOR_O || id == TENSOR_LSE || id == TENSOR_SCORES;
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

clattn_buffer *tensor_buffer(clattn_forward *tensors, const enum tensor_id id)
{
    clattn_buffer *const buffers[NUM_TENSORS] = {
        &tensors->q,         &tensors->k,          &tensors->v,      &tensors->o,
        &tensors->bias,      &tensors->mask,       &tensors->slopes, &tensors->sinks,
        &tensors->q_lengths, &tensors->kv_lengths, &tensors->lse,    &tensors->scores};

    return buffers[id];
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
        .slopes = (const float *)(const void *)view->at[TENSOR_SLOPES],
        .sinks = (const float *)(const void *)view->at[TENSOR_SINKS],
        .q_lengths = (const cl_int *)(const void *)view->at[TENSOR_Q_LENGTHS],
        .kv_lengths = (const cl_int *)(const void *)view->at[TENSOR_KV_LENGTHS],
        .lse = (float *)(void *)view->at[TENSOR_LSE],
        .scores = (float *)(void *)view->at[TENSOR_SCORES],
    };
}
