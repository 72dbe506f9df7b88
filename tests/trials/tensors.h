/* The tensors of a problem, forward or backward, as the tests understand the public header: shape,
 * steps and element size of each, and where they lie in host memory or on a device. */
#ifndef TEST_TENSORS_H
#define TEST_TENSORS_H

#include <clattn/clattn.h>
#include <stdint.h>

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
    NUM_FORWARD_TENSORS,
    TENSOR_DO = NUM_FORWARD_TENSORS, /* this and what follows: backward */
    TENSOR_DQ,
    TENSOR_DK,
    TENSOR_DV,
    TENSOR_DBIAS,
    TENSOR_DSLOPES,
    TENSOR_DSINKS,
    NUM_TENSORS
};

struct tensor_shape {
    const char *name;
    int present;          /* the problem has it and it has elements */
    int written;          /* forward: o, lse, scores; backward: dq and what follows it */
    size_t size[4];       /* 1-dimensional tensors use the last */
    size_t stride[4];     /* in elements, packed layouts resolved */
    size_t extent;        /* elements from the first to the last used, both included; 0 if none */
    size_t element_bytes; /* of a block of 32, if quantized */
    clattn_cache cache;   /* how it is stored */
    clattn_dtype dtype;   /* of q, k, v, o, bias, their gradients and the float tensors */
};

/* Pointers to element (0, 0, 0, 0) of each tensor, NULL where there is none. */
struct tensor_view {
    const unsigned char *at[NUM_TENSORS];
    uint64_t dropout_seed;
    uint32_t dropout_offset;
};

/* The arguments of an execution, of either operation. */
struct tensor_arguments {
    clattn_buffer at[NUM_TENSORS];
    clattn_buffer workspace;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
};

struct tensor_shape tensor_shape_of(const clattn_problem *p, enum tensor_id id);

/* The position of an element, in elements. */
size_t tensor_index(const struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d);

/* Bytes of a number of elements, whole blocks of a quantized tensor; and the value of one of them. */
size_t tensor_bytes(const struct tensor_shape *s, size_t elements);
double tensor_load(const struct tensor_shape *s, const void *base, size_t index);

/* The tensor's place in the argument struct of clattn_attention_forward() or _backward(); NULL for
 * a tensor of the other operation. */
clattn_buffer *tensor_buffer(clattn_forward *tensors, enum tensor_id id);
clattn_buffer *tensor_backward_buffer(clattn_backward *tensors, enum tensor_id id);

/* clattn_attention_forward() or _backward(). */
clattn_status tensor_execute(clattn_operation operation, const clattn_plan *plan,
                             cl_command_queue queue, const struct tensor_arguments *tensors,
                             cl_uint num_wait, const cl_event *wait, cl_event *done);

/* The arguments of clattn_attention_forward_host() or _backward_host(), the results to be written
 * where view says. */
clattn_host_forward tensor_host_forward(const struct tensor_view *view);
clattn_host_backward tensor_host_backward(const struct tensor_view *view);

/* One of those two calls. */
clattn_status tensor_execute_host(clattn_context *context, const clattn_problem *p,
                                  const clattn_plan_options *options,
                                  const struct tensor_view *view);

#endif
