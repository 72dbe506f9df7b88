/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/case_layer.h"

static const clattn_layout dense = {{0}};

static bool is_backward(const clattn_multihead *layer)
{
    return layer->attention.operation == CLATTN_BACKWARD;
}

enum layer_tensor layer_tensor_of(enum input input)
{
    return input == INPUT_DY    ? LAYER_DY
           : input >= INPUT_W_Q ? (enum layer_tensor)(input - INPUT_W_Q + LAYER_W_Q)
                                : (enum layer_tensor)(input - INPUT_X + LAYER_X);
}

bool layer_has_input(const clattn_multihead *layer, enum input input)
{
    if (input == INPUT_RESERVE)
        return is_backward(layer);
    return (input != INPUT_DY || is_backward(layer)) &&
           layer_elements(layer, layer_tensor_of(input)) > 0;
}

bool layer_has_output(const clattn_multihead *layer, enum output output)
{
    if (output == OUTPUT_Y)
        return !is_backward(layer);
    if (output == OUTPUT_RESERVE)
        return !is_backward(layer) && layer->training;
    return is_backward(layer) && output >= OUTPUT_DX &&
           layer_has_input(layer, (enum input)(output - OUTPUT_DX + INPUT_X));
}

enum output layer_gradient(enum input input)
{
    return (enum output)(input - INPUT_X + OUTPUT_DX);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static bool is_bias(enum input which)
{
    return which >= INPUT_B_Q;
}

/* The matrix product of the layer that a weight matrix or a bias belongs to. */
static struct layer_part part_of(const clattn_multihead *layer, enum input which)
{
    return layer_part_of(layer, (int)which - (int)(is_bias(which) ? INPUT_B_Q : INPUT_W_Q));
}

/* Returns whether the columns of the product are the last dimension. */
static bool is_transposed(const clattn_multihead *layer, enum input which)
{
    return layer->order == CLATTN_IN_OUT && !is_bias(which);
}

struct parameter layer_parameter(const clattn_multihead *layer, enum input which)
{
    const struct layer_part part = part_of(layer, which);
    const size_t rows = is_bias(which) ? 1 : part.inputs, all = part.all;
    const size_t size[4] = {1, 1, part.columns, rows};
    const bool transposed = is_transposed(layer, which);
    const enum layer_tensor holder = is_bias(which) ? part.b : part.w;
    const clattn_layout layout = {
        {all * rows, all * rows, transposed ? 1 : rows, transposed ? all : 1}};

    if (layer_elements(layer, holder) == 0)
        return (struct parameter){.input = which, .view = {.extent = 0}};
    return (struct parameter){.input = (enum input)(holder - LAYER_W_Q + INPUT_W_Q),
                              .offset = transposed ? part.first : part.first * rows,
                              .view = view_make(layer->attention.dtype, size, &layout)};
}

/* ---- tensors as they lie in memory ----------------------------------------------------------- */

static struct view parameter_view(const clattn_multihead *layer, enum input which)
{
    const struct layer_part part = part_of(layer, which);
    const size_t rows = is_bias(which) ? 1 : part.inputs;
    const bool columns_last = is_transposed(layer, which) || is_bias(which);
    const size_t size[4] = {1, 1, columns_last ? rows : part.all, columns_last ? part.all : rows};

    return view_make(layer->attention.dtype, size, &dense);
}

static struct view rows_view(const clattn_multihead *layer, size_t seq, size_t columns)
{
    const size_t batch = layer->attention.batch, size[4] = {batch, 1, seq, columns};
    const clattn_layout seq_first = {{columns, columns, batch * columns, 1}};

    return view_make(layer->attention.dtype, size, layer->seq_first ? &seq_first : &dense);
}

struct view layer_view(const clattn_multihead *layer, enum input input)
{
    const clattn_problem *p = &layer->attention;

    switch (input) {
    case INPUT_X:
        return rows_view(layer, p->seq_q, layer->model);
    case INPUT_CONTEXT:
        return rows_view(layer, p->seq_kv, layer->context_model);
    case INPUT_VALUES:
        return rows_view(layer, p->seq_kv, layer->values_model);
    case INPUT_DY:
        return rows_view(layer, p->seq_q, layer->output);
    case INPUT_RESERVE:
        return (struct view){.extent = 0};
    default:
        return parameter_view(layer, input);
    }
}
