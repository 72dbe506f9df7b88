/* SPDX-License-Identifier: Apache-2.0 */
/* One layer run through the public API, forward and backward, and compared with the reference.
 *
 * Tensors lie at random places inside buffers in which every byte that is not theirs is 0xff, a NaN
 * in each dtype; so are outputs before they are written. Everything follows from layer and seed. */
#ifndef TEST_MULTIHEAD_CASE_H
#define TEST_MULTIHEAD_CASE_H

#include "bench/judge/layer.h"
#include "tests/support/fixture.h"

struct layer_buffer {
    size_t elements, element_bytes, bytes; /* bytes: of the buffer; 0 if there is no such tensor */
    size_t offset;                         /* of the first element, in elements */
    unsigned char *sent, *got;
    double *values; /* of what is read as floating-point numbers */
    cl_mem buffer;
};

struct layer_case {
    clattn_multihead layer; /* of forward, with all that backward can write wanted */
    uint64_t seed;
    cl_ulong dropout_seed;
    cl_uint dropout_offset;
    struct layer_buffer tensor[NUM_LAYER_TENSORS], reserve;
    struct layer_buffer function[CLATTN_FUNCTION_OPERANDS]; /* operands of its functions */
    const clattn_function_values *function_values;          /* borrowed; NULL: the sources' */
};

/* The layer that the text describes; fails the test if it does not parse. */
clattn_multihead layer_parsed(const char *text);

/* The layer's gradients. */
clattn_multihead layer_backward(const clattn_multihead *layer);

/* A plan that must be had. */
clattn_multihead_plan *layer_plan(struct fixture *f, const clattn_multihead *layer);

/* Makes the data and the buffers. */
void layer_case_open(struct fixture *f, struct layer_case *c, const clattn_multihead *layer,
                     uint64_t seed);
void layer_case_close(struct layer_case *c);

/* The arguments of an execution, of either direction. */
struct layer_arguments {
    clattn_buffer at[NUM_LAYER_TENSORS], reserve, workspace, function[CLATTN_FUNCTION_OPERANDS];
    const clattn_function_values *function_values;
    cl_ulong dropout_seed;
    cl_uint dropout_offset;
};

/* Those of the case, without a workspace. */
struct layer_arguments layer_case_arguments(const struct layer_case *c);

/* Returns whether an operation has such a tensor at all. */
int layer_argument_of(clattn_operation operation, enum layer_tensor id);

/* clattn_multihead_forward() or _backward(); what is of the other direction is left out. */
clattn_status layer_execute(clattn_operation operation, const clattn_multihead_plan *plan,
                            cl_command_queue queue, const struct layer_arguments *arguments,
                            cl_uint num_wait, const cl_event *wait, cl_event *done);

/* The tensor's name in the header. */
const char *layer_tensor_name(enum layer_tensor id);

/* Returns the tensors that the reference reads. */
struct layer_inputs layer_case_inputs(const struct layer_case *c);

/* Reads everything back and fails the test if a byte has changed that is not of a tensor that the
 * direction writes. */
void layer_case_read(struct fixture *f, struct layer_case *c);

/* Compares what was read with the reference, for each tensor in the set of 1 << id. */
void layer_case_check(const struct layer_case *c, uint64_t tensors);
#define LAYER_ALL_OUTPUTS (~UINT64_C(0))
#define LAYER_FORWARD_OUTPUTS ((UINT64_C(1) << LAYER_Y) | (UINT64_C(1) << LAYER_WEIGHTS))

/* Plans, runs both directions (backward only if the layer trains) and compares all of it. */
void layer_case_pass(struct fixture *f, const clattn_multihead *layer, uint64_t seed);

/* The same with values of the functions' parameters. */
void layer_case_pass_with(struct fixture *f, const clattn_multihead *layer, uint64_t seed,
                          const clattn_function_values *values);

#endif
