/* SPDX-License-Identifier: Apache-2.0 */
/* A multi-head layer as a list of steps, each with a plan's problem and the addresses of its
 * tensors. Between the steps q, k, v and o lie as rows of columns, head after head, in the order
 * of x's rows: (batch, seq, heads, dim), or (seq, batch, heads, dim) if seq_first. So each
 * projection is a plain matrix product over all rows at once, and attention finds its heads by
 * strides. If q, k and v are made from one tensor with packed weights, one product makes them,
 * side by side. */
#ifndef CA_MULTIHEAD_H
#define CA_MULTIHEAD_H

#include "execute/plan.h"
#include <clattn/multihead.h>

/* The rest of the arguments if LAYER is INPUT, LAST or GRADIENT (src/problem/tensors.def). */
#define CA_IF_INPUT(LAYER, ...) CA_IF_INPUT_##LAYER(__VA_ARGS__)
#define CA_IF_INPUT_INPUT(...) __VA_ARGS__
#define CA_IF_INPUT_LAST(...)
#define CA_IF_INPUT_GRADIENT(...)
#define CA_IF_INPUT_OWN(...)
#define CA_IF_LAST(LAYER, ...) CA_IF_LAST_##LAYER(__VA_ARGS__)
#define CA_IF_LAST_INPUT(...)
#define CA_IF_LAST_LAST(...) __VA_ARGS__
#define CA_IF_LAST_GRADIENT(...)
#define CA_IF_LAST_OWN(...)
#define CA_IF_GRADIENT(LAYER, ...) CA_IF_GRADIENT_##LAYER(__VA_ARGS__)
#define CA_IF_GRADIENT_INPUT(...)
#define CA_IF_GRADIENT_LAST(...)
#define CA_IF_GRADIENT_GRADIENT(...) __VA_ARGS__
#define CA_IF_GRADIENT_OWN(...)

/* The place of a tensor: with the caller, or in a region of the reserve, workspace or constants. */
enum ca_place {
    CA_NOWHERE,
    CA_AT_X,
    CA_AT_CONTEXT,
    CA_AT_VALUES,
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    CA_IF_INPUT(LAYER, CA_AT_##ID, ) CA_IF_LAST(LAYER, CA_AT_##ID, )
    CA_OPERANDS(OPERAND)
#undef OPERAND
        CA_AT_W_Q,
    CA_AT_W_K,
    CA_AT_W_V,
    CA_AT_W_O,
    CA_AT_B_Q,
    CA_AT_B_K,
    CA_AT_B_V,
    CA_AT_B_O,
    CA_AT_Y,
    CA_AT_WEIGHTS,
    CA_AT_DY, /* this and the following tensors are of backward */
    CA_AT_DX,
    CA_AT_DCONTEXT,
    CA_AT_DVALUES,
    CA_AT_DW_Q,
    CA_AT_DW_K,
    CA_AT_DW_V,
    CA_AT_DW_O,
    CA_AT_DB_Q,
    CA_AT_DB_K,
    CA_AT_DB_V,
    CA_AT_DB_O,
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...) CA_IF_GRADIENT(LAYER, CA_AT_##ID, )
    CA_OPERANDS(OPERAND)
#undef OPERAND
        CA_AT_RESERVE,
    CA_AT_WORKSPACE,
    CA_NUM_LAYER_TENSORS,
    /* this and the following places are regions of the plan's own memory */
    CA_AT_Q = CA_NUM_LAYER_TENSORS,
    CA_AT_K,
    CA_AT_V,
    CA_AT_O,
    CA_AT_LSE,
    CA_AT_SCORES, /* the weights of all heads, of which the layer returns the mean */
    CA_AT_DQ,
    CA_AT_DK,
    CA_AT_DV,
    CA_AT_DO,
    CA_AT_CONSTANTS, /* 1 and 0 in the layer's dtype; from CA_MEAN_BYTES heads times 1 / heads */
    CA_NUM_PLACES    /* at most 64 */
};
#define CA_PLACE(place) (UINT64_C(1) << (place))

enum { CA_MAX_STEPS = 16, CA_STEP_NAME = 24, CA_REGION_ALIGN = 128, CA_MEAN_BYTES = 8 };

/* The tensor of a step, offset elements behind the beginning of its place. */
struct ca_located {
    enum ca_place place;
    size_t offset;
};

struct ca_step {
    char name[CA_STEP_NAME];
    clattn_problem problem;
    struct ca_located at[CA_NUM_ARGUMENTS];
};

/* Bytes inside another place; none: the layer has no such tensor. */
struct ca_region {
    enum ca_place inside; /* CA_AT_RESERVE, CA_AT_WORKSPACE or, for the constants, CA_NOWHERE */
    size_t offset, bytes;
};

struct ca_steps {
    struct ca_step list[CA_MAX_STEPS];
    size_t count;
    struct ca_region regions[CA_NUM_PLACES];
    /* bytes of the regions in the reserve and in the workspace */
    size_t reserve_bytes, workspace_bytes;
};

/* Columns of q, k and v together, in this order. */
struct ca_columns {
    size_t q, k, v, all;
};
struct ca_columns ca_layer_columns(const clattn_multihead *layer);

/* Rows of x, or of the inputs that keys and values are made of. */
size_t ca_layer_rows(const clattn_multihead *layer, int of_keys);

/* The steps of a layer that passed every check but that of its steps. */
void ca_layer_steps(const clattn_multihead *layer, struct ca_steps *steps);

/* The caller's tensors of a layer that passed clattn_multihead_check(), by place. */
void ca_layer_operands(const clattn_multihead *layer, const struct ca_steps *steps,
                       struct ca_operand operands[CA_NUM_LAYER_TENSORS]);

/* A step that is ready to be enqueued. */
struct ca_ready_step {
    struct ca_step step;
    clattn_plan *plan;
    uint64_t reads, writes; /* CA_PLACE()s */
    unsigned after;         /* bit n: step n writes what this one reads */
    size_t workspace;       /* byte offset of the step's own workspace in the layer's */
};

struct clattn_multihead_plan {
    clattn_context *context;
    clattn_multihead layer;
    struct ca_operand operands[CA_NUM_LAYER_TENSORS];
    struct ca_ready_step steps[CA_MAX_STEPS];
    size_t num_steps;
    struct ca_region regions[CA_NUM_PLACES];
    cl_mem constants; /* NULL: no step needs them */
    size_t workspace_bytes, reserve_bytes;
    char *layer_text, *steps_text;
};

#endif
