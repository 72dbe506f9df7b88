/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a multi-head layer. */
#ifndef CLATTN_BENCH_CASE_LAYER_H
#define CLATTN_BENCH_CASE_LAYER_H

#include "bench/cases/view.h"
#include "bench/judge/layer.h"

/* The judge's name of an input of layers, from X to DY. */
enum layer_tensor layer_tensor_of(enum input input);

/* Returns whether the layer has such a tensor; those of its attention's options are not meant. */
bool layer_has_input(const clattn_multihead *layer, enum input input);
bool layer_has_output(const clattn_multihead *layer, enum output output);

/* The view of an input from X to DY. Matrices are (1, 1, rows, columns) as they lie in memory, all
 * three together where they are packed. */
struct view layer_view(const clattn_multihead *layer, enum input input);

/* A weight matrix, or a bias, wherever it lies. */
struct parameter {
    enum input input; /* The tensor that holds it. */
    size_t offset;    /* Offset of its first element in that tensor. */
    /* Sizes (1, 1, columns of the product, columns of x); for a bias, the last is 1. */
    struct view view;
};

/* A parameter from INPUT_W_Q to INPUT_B_O; one that the layer lacks has a view without elements. */
struct parameter layer_parameter(const clattn_multihead *layer, enum input which);

/* The output with the gradient with respect to an input from X on. */
enum output layer_gradient(enum input input);

#endif
