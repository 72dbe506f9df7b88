/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head layers and their gradients in double precision by plain loops, written from
 * <clattn/multihead.h> and the formulas of <clattn/problem.h>. It shares no code with the library.
 * Every value carries an error that f32 arithmetic and the storage between the steps are likely not to exceed (layer.c). */
#ifndef CLATTN_JUDGE_LAYER_H
#define CLATTN_JUDGE_LAYER_H

#include "bench/judge/layer_tensors.def"
#include "bench/judge/score.h"
#include <clattn/multihead.h>

enum layer_tensor {
#define TENSOR(ID, name) LAYER_##ID,
    LAYER_TENSORS(TENSOR)
#undef TENSOR
        NUM_LAYER_TENSORS
};

/* Elements of a tensor, of either direction; 0 if the layer has no such tensor. */
size_t layer_elements(const clattn_multihead *layer, enum layer_tensor id);

/* Returns the dtype in which a tensor is stored. That of a mask or of lengths means nothing. */
clattn_dtype layer_dtype(const clattn_multihead *layer, enum layer_tensor id);

/* A matrix product of the layer: q, k, v or the output (n = 0 to 3). */
struct layer_part {
    size_t rows, inputs, columns;
    size_t first, all; /* the matrix w has `all` columns; this part's begin at column `first` */
    enum layer_tensor source, w, b;
};

struct layer_part layer_part_of(const clattn_multihead *layer, int n);

/* The place in the matrix of the part's row m and column n. */
size_t layer_weight_at(const clattn_multihead *layer, const struct layer_part *part, size_t m,
                       size_t n);

/* The row of x's order that batch b and position s have. */
size_t layer_row(const clattn_multihead *layer, size_t b, size_t s, size_t seq);

/* Tensors that a layer reads, each as numbers or, where these are NULL, as stored. Both are NULL
 * where there is no tensor, and for mask and lengths. */
struct layer_inputs {
    const double *at[LAYER_DY + 1];
    const void *stored[LAYER_DY + 1];
    struct tensor_view
        options; /* mask, lengths and operands of functions as stored; dropout's seed and offset */
};

/* Element n of a tensor that is there. */
double layer_input(const clattn_multihead *layer, const struct layer_inputs *in,
                   enum layer_tensor id, size_t n);

/* The results of both directions; NULL where there is none. */
struct layer_outputs {
    struct bounded *at[NUM_LAYER_TENSORS];
};

/* Computes everything, for the layer of either direction; gradients of all that is read. False without memory; closing is
 * due in any case. */
bool reference_layer_open(const clattn_multihead *layer, const struct layer_inputs *in,
                          struct layer_outputs *out);
void reference_layer_close(struct layer_outputs *out);

struct layer_answers {
    struct layer_answer {
        enum layer_tensor id;
        size_t place; /* Place of the element in its tensor. */
        struct bounded want;
    } * list; /* Owned. */
    size_t count;
    bool made;
};

/* For layers of any size, whose attention has the operation. With `whole` it gives all of y, or
 * in backward all gradients of the products' inputs and of their parameters. Otherwise it gives
 * y, dx and the gradients of context and values in the last batch, and the parameters' gradients
 * of the first kv head in all batches. Sets `made`; false without memory. */
bool layer_answers_make(const clattn_multihead *layer, const struct layer_inputs *in,
                        enum precision precision, bool whole, struct layer_answers *answers);

#endif
