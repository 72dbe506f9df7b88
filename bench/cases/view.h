/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a job by name, and where their elements lie. */
#ifndef CLATTN_BENCH_VIEW_H
#define CLATTN_BENCH_VIEW_H

#include "internal.h"

#include <stdbool.h>

/* The operands of attention are those of src/problem/tensors.def, in its order: what CASE_IF_READ and
 * CASE_IF_WRITTEN leave of an operand's arguments, by who writes it and which calls it is given to. Those of
 * projections, merges and appends follow, from their lists. A layer has neither q, k nor v. */
#define CASE_IF_READ(WRITER, GIVEN, ...) CASE_IF_READ_##WRITER##_##GIVEN(__VA_ARGS__)
#define CASE_IF_READ_NOBODY_BOTH(...) __VA_ARGS__
#define CASE_IF_READ_NOBODY_FORWARD(...) __VA_ARGS__
#define CASE_IF_READ_NOBODY_BACKWARD(...) __VA_ARGS__
#define CASE_IF_READ_FORWARD_BOTH(...) __VA_ARGS__ /* written by forward, read by backward */
#define CASE_IF_READ_FORWARD_FORWARD(...)
#define CASE_IF_READ_BACKWARD_BACKWARD(...)
#define CASE_IF_WRITTEN(WRITER, ...) CASE_IF_WRITTEN_##WRITER(__VA_ARGS__)
#define CASE_IF_WRITTEN_NOBODY(...)
#define CASE_IF_WRITTEN_FORWARD(...) __VA_ARGS__
#define CASE_IF_WRITTEN_BACKWARD(...) __VA_ARGS__

#define CASE_IF_INPUT(role, ...) CASE_IF_INPUT_##role(__VA_ARGS__)
#define CASE_IF_INPUT_input(...) __VA_ARGS__
#define CASE_IF_INPUT_output(...)
#define CASE_IF_OUTPUT(role, ...) CASE_IF_OUTPUT_##role(__VA_ARGS__)
#define CASE_IF_OUTPUT_input(...)
#define CASE_IF_OUTPUT_output(...) __VA_ARGS__

enum input {
#define OPERAND(ID, member, GIVEN, WRITER, ...) CASE_IF_READ(WRITER, GIVEN, INPUT_##ID, )
    CA_OPERANDS(OPERAND)
#undef OPERAND
#define OPERAND(OF, ID, member, LAYOUT, role, ...) CASE_IF_INPUT(role, INPUT_##OF##_##ID, )
#define OPERATION(ID, ...) CA_##ID##_OPERANDS(OPERAND, ID)
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
            INPUT_X, /* The inputs of layers begin here. */
    INPUT_CONTEXT,
    INPUT_VALUES,
    INPUT_W_Q, /* Where w_q, w_k and w_v are packed, all three; likewise b_q. */
    INPUT_W_K,
    INPUT_W_V,
    INPUT_W_O,
    INPUT_B_Q,
    INPUT_B_K,
    INPUT_B_V,
    INPUT_B_O,
    INPUT_DY,
    INPUT_RESERVE, /* Opaque bytes that forward has written. */
    INPUT_COUNT
};

enum output {
#define OPERAND(ID, member, GIVEN, WRITER, ...) CASE_IF_WRITTEN(WRITER, OUTPUT_##ID, )
    CA_OPERANDS(OPERAND)
#undef OPERAND
#define OPERAND(OF, ID, member, LAYOUT, role, ...) CASE_IF_OUTPUT(role, OUTPUT_##OF##_##ID, )
#define OPERATION(ID, ...) CA_##ID##_OPERANDS(OPERAND, ID)
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
            OUTPUT_Y, /* The outputs of layers begin here. */
    OUTPUT_RESERVE,
    OUTPUT_DX, /* Gradients in the order of the inputs. */
    OUTPUT_DCONTEXT,
    OUTPUT_DVALUES,
    OUTPUT_DW_Q,
    OUTPUT_DW_K,
    OUTPUT_DW_V,
    OUTPUT_DW_O,
    OUTPUT_DB_Q,
    OUTPUT_DB_K,
    OUTPUT_DB_V,
    OUTPUT_DB_O,
    OUTPUT_COUNT
};

/* The places of a tensor's elements. Tensors of fewer than four dimensions have sizes of 1 in
 * front, but lse a last one of 1. In a layer, x, context and y are (batch, 1, seq, columns). In
 * a projection, w is (heads of x, columns of x, heads of y, columns of y). */
struct view {
    clattn_dtype dtype; /* Meaningless for the mask and lengths. */
    clattn_cache cache; /* For k and v: how their elements are quantized. */
    size_t element;     /* Bytes of an element; of a block of 32, if quantized. */
    size_t size[4];
    size_t stride[4];
    bool few;      /* The tensor has one number per head or per batch. */
    size_t extent; /* One past the last element's place; 0 if there is none, or no such tensor. */
};

/* Packed (0, 1, 2, 3) where all four strides of the layout are 0. */
struct view view_make(clattn_dtype dtype, const size_t size[4], const clattn_layout *layout);

/* The place of element (b, h, s, d) in a tensor with this view. */
size_t view_place(const struct view *view, size_t b, size_t h, size_t s, size_t d);

/* The bytes of so many elements, and an element of the data: quantized or not. */
double view_elements_bytes(const struct view *view, double elements);
/* The bytes from its first to its last element, gaps included. */
size_t view_extent_bytes(const struct view *view);

/* Sets the extent from the sizes and steps. */
void view_find_extent(struct view *view);

#endif
