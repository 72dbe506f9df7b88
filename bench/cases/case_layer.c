#include "bench/cases/case_layer.h"

static const clattn_layout dense = {{0}};

static bool is_backward(const clattn_multihead *layer)
{
    return layer->attention.operation == CLATTN_BACKWARD;
}

static bool has_parameter(const clattn_multihead *layer, enum input input)
{
    switch (input) {
    case INPUT_W_Q:
    case INPUT_W_O:
        return true;
    case INPUT_W_K:
    case INPUT_W_V:
        return !layer->packed;
    case INPUT_B_Q:
        return layer->qkv_biases != 0;
    case INPUT_B_K:
    case INPUT_B_V:
        return layer->qkv_biases && !layer->packed;
    case INPUT_B_O:
        return layer->output_bias != 0;
    default:
        return false;
    }
}

bool layer_has_input(const clattn_multihead *layer, enum input input)
{
    switch (input) {
    case INPUT_X:
        return true;
    case INPUT_CONTEXT:
        return layer->source != CLATTN_SELF;
    case INPUT_VALUES:
        return layer->source == CLATTN_SEPARATE;
    case INPUT_DY:
    case INPUT_RESERVE:
        return is_backward(layer);
    default:
        return has_parameter(layer, input);
    }
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

/* ---- rows ------------------------------------------------------------------------------------ */

static struct view rows_view(const clattn_multihead *layer, size_t seq, size_t columns)
{
    const size_t batch = layer->attention.batch, size[4] = {batch, 1, seq, columns};
    const clattn_layout seq_first = {{columns, columns, batch * columns, 1}};

    return view_make(layer->attention.dtype, size, layer->seq_first ? &seq_first : &dense);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Columns of q, k, v and y. */
static size_t columns_of(const clattn_multihead *layer, enum input weights)
{
    const clattn_problem *p = &layer->attention;

    switch (weights) {
    case INPUT_W_Q:
        return p->heads * p->dim_qk;
    case INPUT_W_K:
        return p->kv_heads * p->dim_qk;
    case INPUT_W_V:
        return p->kv_heads * p->dim_v;
    default:
        return layer->output;
    }
}

/* Columns of what is multiplied. */
static size_t rows_of(const clattn_multihead *layer, enum input weights)
{
    const clattn_problem *p = &layer->attention;

    switch (weights) {
    case INPUT_W_Q:
        return layer->model;
    case INPUT_W_K:
        return layer->context_model;
    case INPUT_W_V:
        return layer->values_model;
    default:
        return p->heads * p->dim_v;
    }
}

static bool is_bias(enum input which)
{
    return which >= INPUT_B_Q;
}

/* The matrix that a bias belongs to. */
static enum input matrix_of(enum input which)
{
    return is_bias(which) ? (enum input)(which - INPUT_B_Q + INPUT_W_Q) : which;
}

/* Columns of all that lie in one tensor with this one, and how many of them before it. */
static size_t shared_columns(const clattn_multihead *layer, enum input weights, size_t *before)
{
    size_t all = 0;

    *before = 0;
    if (!layer->packed || weights == INPUT_W_O)
        return columns_of(layer, weights);
    for (enum input n = INPUT_W_Q; n <= INPUT_W_V; n++) {
        *before = n == weights ? all : *before;
        all += columns_of(layer, n);
    }
    return all;
}

struct parameter layer_parameter(const clattn_multihead *layer, enum input which)
{
    const enum input weights = matrix_of(which);
    const size_t columns = columns_of(layer, weights);
    const size_t rows = is_bias(which) ? 1 : rows_of(layer, weights);
    const size_t size[4] = {1, 1, columns, rows};
    const bool shared = layer->packed && weights != INPUT_W_O;
    const bool there =
        is_bias(which) ? which == INPUT_B_O ? layer->output_bias : layer->qkv_biases : true;
    size_t before;

    if (!there)
        return (struct parameter){.input = which, .view = {.extent = 0}};
    const size_t all = shared_columns(layer, weights, &before);
    const bool transposed = layer->order == CLATTN_IN_OUT && !is_bias(which);
    const clattn_layout layout = {
        {all * rows, all * rows, transposed ? 1 : rows, transposed ? all : 1}};
    return (struct parameter){.input = !shared          ? which
                                       : is_bias(which) ? INPUT_B_Q
                                                        : INPUT_W_Q,
                              .offset = transposed ? before : before * rows,
                              .view = view_make(layer->attention.dtype, size, &layout)};
}

/* As it lies in memory. */
static struct view parameter_view(const clattn_multihead *layer, enum input which)
{
    const enum input weights = matrix_of(which);
    size_t before;
    const size_t all = shared_columns(layer, weights, &before);
    const size_t rows = is_bias(which) ? 1 : rows_of(layer, weights);
    const bool transposed = layer->order == CLATTN_IN_OUT && !is_bias(which);
    const size_t size[4] = {1, 1, transposed || is_bias(which) ? rows : all,
                            transposed || is_bias(which) ? all : rows};

    return view_make(layer->attention.dtype, size, &dense);
}

/* ---------------------------------------------------------------------------------------------- */

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
