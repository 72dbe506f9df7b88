/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a problem as the arguments of calls. */
#ifndef TEST_TENSORS_H
#define TEST_TENSORS_H

#include "bench/judge/tensors.h"
#include <clattn/clattn.h>

/* The arguments of an execution, of any of these operations. */
struct tensor_arguments {
    clattn_buffer at[NUM_TENSORS];
    clattn_buffer workspace;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    clattn_dropout_place dropout_place;
    uint32_t whole_queries, whole_keys;
    const clattn_function_values *function_values; /* NULL: those of the sources */
};

/* The tensor's place in the argument struct of clattn_attention_forward() or _backward(); NULL for
 * a tensor of the other operation. */
clattn_buffer *tensor_buffer(clattn_forward_tensors *tensors, enum tensor_id id);
clattn_buffer *tensor_backward_buffer(clattn_backward_tensors *tensors, enum tensor_id id);

/* The call of the operation, its tensors by their numbers in its enum. */
clattn_status tensor_execute(clattn_operation operation, const clattn_plan *plan,
                             cl_command_queue queue, const struct tensor_arguments *tensors,
                             cl_uint num_wait, const cl_event *wait, cl_event *done);

/* The host call of the problem's operation. */
clattn_status tensor_execute_host(clattn_context *context, const clattn_problem *p,
                                  const clattn_plan_options *options,
                                  const struct tensor_view *view);

#endif
