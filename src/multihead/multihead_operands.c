/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's tensors of a layer. */
#include "multihead/multihead.h"
#include "problem/layout.h"

#include <string.h>

/* Describes attention's own operands as its plan does. */
static void describe_options(const clattn_problem *attention,
                             struct ca_operand operands[CA_NUM_LAYER_TENSORS])
{
    static const enum ca_place places[CA_NUM_ARGUMENTS] = {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    CA_IF_INPUT(LAYER, [CA_##ID] = CA_AT_##ID, )                                                   \
    CA_IF_LAST(LAYER, [CA_##ID] = CA_AT_##ID, ) CA_IF_GRADIENT(LAYER, [CA_##ID] = CA_AT_##ID, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(attention, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        if (places[n] == CA_NOWHERE)
            continue;
        struct ca_operand *operand = &operands[places[n]];
        *operand = (struct ca_operand){.name = tensors[n].name,
                                       .present = tensors[n].present,
                                       .written = tensors[n].written,
                                       .element_bytes = tensors[n].element_bytes,
                                       .layout = tensors[n].layout};
        memcpy(operand->sizes, tensors[n].sizes, sizeof operand->sizes);
        ca_layout_span(&tensors[n].layout, tensors[n].sizes, &operand->span); /* was checked */
    }
}

void ca_layer_operands(const clattn_multihead *layer, const struct ca_steps *steps,
                       struct ca_operand operands[CA_NUM_LAYER_TENSORS])
{
    const clattn_problem *p = &layer->attention;
    const struct ca_columns columns = ca_layer_columns(layer);
    const size_t bytes = ca_dtype_bytes(p->dtype), merged = p->heads * p->dim_v;
    const size_t queries = ca_layer_rows(layer, 0), keys = ca_layer_rows(layer, 1);
    const size_t weights = layer->weights == CLATTN_WEIGHTS_NONE   ? 0
                           : layer->weights == CLATTN_WEIGHTS_MEAN ? queries * p->seq_kv
                                                                   : queries * p->seq_kv * p->heads;
    const int forward = p->operation == CLATTN_FORWARD, backward = !forward;
    const int cross = layer->source != CLATTN_SELF, separate = layer->source == CLATTN_SEPARATE;
    const int apart = !layer->packed, biases = layer->qkv_biases, obias = layer->output_bias;
    const size_t w_q = layer->model * (layer->packed ? columns.all : columns.q);
    const size_t w_k = layer->context_model * columns.k, w_v = layer->values_model * columns.v;
    const size_t w_o = merged * layer->output, b_q = layer->packed ? columns.all : columns.q;
    const size_t x = queries * layer->model, y = queries * layer->output;
    const size_t context = keys * layer->context_model, values = keys * layer->values_model;
    const int dcontext = separate || layer->packed ? 1 : CA_UPDATED;
    const int dx = cross || layer->packed ? 1 : CA_UPDATED; /* added up from q, k and v */
    const struct {
        enum ca_place place;
        struct {
            const char *name;
            int present, written;
            size_t element_bytes, span;
            int optional;
        } operand;
    } all[] = {
        {CA_AT_X, {"x", 1, 0, bytes, x, 0}},
        {CA_AT_CONTEXT, {"context", cross, 0, bytes, context, 0}},
        {CA_AT_VALUES, {"values", separate, 0, bytes, values, 0}},
        {CA_AT_W_Q, {"w_q", 1, 0, bytes, w_q, 0}},
        {CA_AT_W_K, {"w_k", apart, 0, bytes, w_k, 0}},
        {CA_AT_W_V, {"w_v", apart, 0, bytes, w_v, 0}},
        {CA_AT_W_O, {"w_o", 1, 0, bytes, w_o, 0}},
        {CA_AT_B_Q, {"b_q", biases, 0, bytes, b_q, 0}},
        {CA_AT_B_K, {"b_k", biases && apart, 0, bytes, columns.k, 0}},
        {CA_AT_B_V, {"b_v", biases && apart, 0, bytes, columns.v, 0}},
        {CA_AT_B_O, {"b_o", obias, 0, bytes, layer->output, 0}},
        {CA_AT_Y, {"y", forward, 1, bytes, y, 0}},
        {CA_AT_WEIGHTS,
         {"weights", layer->weights != CLATTN_WEIGHTS_NONE, 1, sizeof(cl_float), weights, 0}},
        {CA_AT_DY, {"dy", backward, 0, bytes, y, 0}},
        {CA_AT_DX, {"dx", backward, dx, bytes, x, 1}},
        {CA_AT_DCONTEXT, {"dcontext", backward && cross, dcontext, bytes, context, 1}},
        {CA_AT_DVALUES, {"dvalues", backward && separate, 1, bytes, values, 1}},
        {CA_AT_DW_Q, {"gradients.w_q", backward, 1, bytes, w_q, 1}},
        {CA_AT_DW_K, {"gradients.w_k", backward && apart, 1, bytes, w_k, 1}},
        {CA_AT_DW_V, {"gradients.w_v", backward && apart, 1, bytes, w_v, 1}},
        {CA_AT_DW_O, {"gradients.w_o", backward, 1, bytes, w_o, 1}},
        {CA_AT_DB_Q, {"gradients.b_q", backward && biases, 1, bytes, b_q, 1}},
        {CA_AT_DB_K, {"gradients.b_k", backward && biases && apart, 1, bytes, columns.k, 1}},
        {CA_AT_DB_V, {"gradients.b_v", backward && biases && apart, 1, bytes, columns.v, 1}},
        {CA_AT_DB_O, {"gradients.b_o", backward && obias, 1, bytes, layer->output, 1}},
        {CA_AT_RESERVE,
         {"reserve", backward || layer->training, forward ? CA_UPDATED : 0, sizeof(cl_float),
          steps->reserve_bytes / sizeof(cl_float), 0}},
        {CA_AT_WORKSPACE, {"workspace", 1, CA_UPDATED, sizeof(cl_float), 0, 1}},
    };

    operands[CA_NOWHERE] = (struct ca_operand){.name = "nothing", .element_bytes = 1};
    describe_options(p, operands);
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        operands[all[n].place] = (struct ca_operand){.name = all[n].operand.name,
                                                     .present = all[n].operand.present,
                                                     .written = all[n].operand.written,
                                                     .element_bytes = all[n].operand.element_bytes,
                                                     .span = all[n].operand.span,
                                                     .optional = all[n].operand.optional};
}
