/* A part of a layer in double precision, and the same once more with the rounding errors of a given
 * arithmetic put in at random: what it comes to, and what rounding may do to it. */
#ifndef CLATTN_BENCH_LAYER_MATH_H
#define CLATTN_BENCH_LAYER_MATH_H

#include "bench/cases/case_layer.h"
#include "bench/judge/score.h"
#include "cli/message.h"

#include <stdint.h>

/* A case, and the arithmetic that its results are held to. */
struct layer_data {
    const struct attention_case *attention;
    struct view in[INPUT_COUNT];
    struct tensor_view options; /* Masks, biases and the like: what attention is told. */
    struct reference reference; /* With those. */
};

/* It refers to itself: it must not be moved. */
void layer_data_open(struct layer_data *layer_data, const struct attention_case *attention,
                     enum precision precision);

/* Of each from the first to before the end. */
struct layer_part {
    size_t batch, batch_end;
    size_t head, head_end; /* Of k and v. */
};

/* Rows of doubles, one after the other. */
struct matrix {
    double *at; /* Owned. */
    size_t rows, columns;
};

/* Matrices of a part. Rows are those of its batches, (batch, seq); columns of q, k, v, o and their
 * gradients those of its heads, head after head. What a direction or a source has not is empty. */
struct layer_math {
    const struct layer_data *layer_data;
    const clattn_multihead *layer;
    struct layer_part part;
    bool rounded; /* With rounding errors. */
    uint64_t random;
    struct matrix x, context, values, dy; /* Read. */
    struct matrix q, k, v, o;
    struct matrix d_o, dq, dk, dv;
};

/* Forward, and of backward the gradients up to dq, dk and dv. */
bool layer_math_run(struct layer_math *math, struct message *why);

/* Allowed after a failure, and on one that is all zeros. */
void layer_math_release(struct layer_math *math);

/* Zeros. */
bool matrix_open(struct matrix *matrix, size_t rows, size_t columns, struct message *why);
void matrix_close(struct matrix *matrix);

/* c += a b, with the rounding errors of such a product. */
void layer_math_multiply(struct layer_math *math, struct matrix *c, const struct matrix *a,
                         const struct matrix *b);

/* c += a^T b, likewise. */
void layer_math_multiply_transposed(struct layer_math *math, struct matrix *c,
                                    const struct matrix *a, const struct matrix *b);

/* A weight matrix, or a bias, as far as it belongs to the part's heads: (columns of the product,
 * columns of what is multiplied) or, `transposed`, the other way round. */
bool layer_math_parameter(const struct layer_math *math, enum input which, bool transposed,
                          struct matrix *matrix, struct message *why);

/* The first of the part's columns of the product, and how many there are; of W_O those of o. */
void layer_math_columns(const struct layer_math *math, enum input which, size_t *first,
                        size_t *count);

#endif
