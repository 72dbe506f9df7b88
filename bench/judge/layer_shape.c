/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/layer.h"
#include "bench/judge/values.h"

struct layer_part layer_part_of(const clattn_multihead *layer, const int n)
{
    const clattn_problem *p = &layer->attention;
    const size_t widths[4] = {p->heads * p->dim_qk, p->kv_heads * p->dim_qk, p->kv_heads * p->dim_v,
                              layer->output};
    const enum layer_tensor sources[3][4] = {{LAYER_X, LAYER_X, LAYER_X, LAYER_Y},
                                             {LAYER_X, LAYER_CONTEXT, LAYER_CONTEXT, LAYER_Y},
                                             {LAYER_X, LAYER_CONTEXT, LAYER_VALUES, LAYER_Y}};
    const size_t inputs[4] = {layer->model, layer->context_model, layer->values_model,
                              p->heads * p->dim_v};
    const int packed = layer->packed && n < 3;
    struct layer_part part = {.rows = p->batch * (n == 1 || n == 2 ? p->seq_kv : p->seq_q),
                              .inputs = inputs[n],
                              .columns = widths[n],
                              .all = packed ? widths[0] + widths[1] + widths[2] : widths[n],
                              .source = sources[layer->source][n],
                              .w = packed ? LAYER_W_Q : (enum layer_tensor)(LAYER_W_Q + n),
                              .b = packed ? LAYER_B_Q : (enum layer_tensor)(LAYER_B_Q + n)};

    for (int m = 0; packed && m < n; m++)
        part.first += widths[m];
    return part;
}

size_t layer_weight_at(const clattn_multihead *layer, const struct layer_part *part, const size_t m,
                       const size_t n)
{
    return layer->order == CLATTN_OUT_IN ? (part->first + n) * part->inputs + m
                                         : m * part->all + part->first + n;
}

size_t layer_row(const clattn_multihead *layer, const size_t b, const size_t s, const size_t seq)
{
    return layer->seq_first ? s * layer->attention.batch + b : b * seq + s;
}

double layer_input(const clattn_multihead *layer, const struct layer_inputs *in,
                   const enum layer_tensor id, const size_t n)
{
    return in->at[id] ? in->at[id][n] : value_get(layer_dtype(layer, id), in->stored[id], n);
}

static size_t bias_elements(const clattn_problem *p)
{
    clattn_problem spanning = *p;

    spanning.operation = CLATTN_FORWARD;
    return tensor_shape_of(&spanning, TENSOR_BIAS).extent;
}

static size_t parameter_elements(const clattn_multihead *layer, const enum layer_tensor id)
{
    const int is_bias = id >= LAYER_B_Q;
    const int n = (int)id - (is_bias ? LAYER_B_Q : LAYER_W_Q);
    const struct layer_part part = layer_part_of(layer, n);

    if (is_bias && !(n == 3 ? layer->output_bias : layer->qkv_biases))
        return 0;
    if (part.w != (enum layer_tensor)(LAYER_W_Q + n))
        return 0; /* packed into the first */
    return is_bias ? part.all : part.all * part.inputs;
}

size_t layer_elements(const clattn_multihead *layer, const enum layer_tensor id)
{
    const clattn_problem *p = &layer->attention;
    const size_t queries = p->batch * p->seq_q, keys = p->batch * p->seq_kv;

    switch (id) {
    case LAYER_X:
    case LAYER_DX:
        return queries * layer->model;
    case LAYER_CONTEXT:
    case LAYER_DCONTEXT:
        return layer->source == CLATTN_SELF ? 0 : keys * layer->context_model;
    case LAYER_VALUES:
    case LAYER_DVALUES:
        return layer->source == CLATTN_SEPARATE ? keys * layer->values_model : 0;
    case LAYER_Y:
    case LAYER_DY:
        return queries * layer->output;
    case LAYER_WEIGHTS:
        return layer->weights == CLATTN_WEIGHTS_NONE   ? 0
               : layer->weights == CLATTN_WEIGHTS_MEAN ? queries * p->seq_kv
                                                       : queries * p->heads * p->seq_kv;
    case LAYER_BIAS:
    case LAYER_DBIAS:
        return p->bias ? bias_elements(p) : 0;
    case LAYER_MASK:
        return tensor_shape_of(p, TENSOR_MASK).extent;
    case LAYER_SLOPES:
    case LAYER_DSLOPES:
        return p->alibi ? p->heads : 0;
    case LAYER_SINKS:
    case LAYER_DSINKS:
        return p->sinks ? p->heads : 0;
    case LAYER_DFUNCTION:
        return tensor_function_gradient(p, CLATTN_FUNCTION_OPERANDS);
    case LAYER_Q_LENGTHS:
        return p->q_lengths ? p->batch : 0;
    case LAYER_KV_LENGTHS:
        return p->kv_lengths ? p->batch : 0;
    default:
        return parameter_elements(
            layer, id < LAYER_DW_Q ? id : (enum layer_tensor)(id - LAYER_DW_Q + LAYER_W_Q));
    }
}

clattn_dtype layer_dtype(const clattn_multihead *layer, const enum layer_tensor id)
{
    switch (id) {
    case LAYER_BIAS:
    case LAYER_DBIAS:
        return layer->attention.bias_dtype;
    case LAYER_SLOPES:
    case LAYER_DSLOPES:
    case LAYER_SINKS:
    case LAYER_DSINKS:
    case LAYER_DFUNCTION:
    case LAYER_WEIGHTS:
        return CLATTN_F32;
    default:
        return layer->attention.dtype;
    }
}
