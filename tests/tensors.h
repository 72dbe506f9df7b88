/* The tensors of a forward problem as the tests understand the public header: shape, steps and
 * element size of each, and where they lie in host memory. */
#ifndef TEST_TENSORS_H
#define TEST_TENSORS_H

#include <clattn/clattn.h>

enum tensor_id {
    TENSOR_Q,
    TENSOR_K,
    TENSOR_V,
    TENSOR_O,
    TENSOR_BIAS,
    TENSOR_MASK,
    TENSOR_SLOPES,
    TENSOR_SINKS,
    TENSOR_Q_LENGTHS,
    TENSOR_KV_LENGTHS,
    TENSOR_LSE,
    TENSOR_SCORES,
    NUM_TENSORS
};

struct tensor_shape {
    const char *name;
    int present;      /* the problem has it and it has elements */
    int written;      /* o, lse or scores */
    size_t size[4];   /* 1-dimensional tensors use the last */
    size_t stride[4]; /* in elements, packed layouts resolved */
    size_t extent;    /* elements from the first to the last used, both included; 0 if none */
    size_t element_bytes;
    clattn_dtype dtype; /* of q, k, v, o, bias and the float tensors */
};

/* Pointers to element (0, 0, 0, 0) of each tensor, NULL where there is none. */
struct tensor_view {
    const unsigned char *at[NUM_TENSORS];
};

struct tensor_shape tensor_shape_of(const clattn_problem *p, enum tensor_id id);

/* The position of an element, in elements. */
size_t tensor_index(const struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d);

/* The tensor's place in the argument struct of clattn_attention_forward(). */
clattn_buffer *tensor_buffer(clattn_forward *tensors, enum tensor_id id);

/* The arguments of clattn_attention_forward_host(), the results to be written where view says. */
clattn_host_forward tensor_host_forward(const struct tensor_view *view);

#endif
