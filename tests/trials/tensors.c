/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/tensors.h"
#include "bench/judge/projection.h"

clattn_buffer *tensor_buffer(clattn_forward_tensors *tensors, const enum tensor_id id)
{
    switch (id) {
#define TENSOR(ID, member, text, GIVEN, ...)                                                       \
    TENSOR_IF_FORWARD(GIVEN, case TENSOR_##ID : return &tensors->member;)
        TENSORS(TENSOR)
#undef TENSOR
    default:
        return NULL;
    }
}

clattn_buffer *tensor_backward_buffer(clattn_backward_tensors *tensors, const enum tensor_id id)
{
    switch (id) {
#define TENSOR(ID, member, text, GIVEN, ...)                                                       \
    TENSOR_IF_BACKWARD(GIVEN, case TENSOR_##ID : return &tensors->member;)
        TENSORS(TENSOR)
#undef TENSOR
    default:
        return NULL;
    }
}

clattn_status tensor_execute(const clattn_operation operation, const clattn_plan *plan,
                             cl_command_queue queue, const struct tensor_arguments *tensors,
                             const cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    clattn_forward_tensors forward = {.struct_size = sizeof forward,
                                      .workspace = tensors->workspace,
                                      .dropout_seed = tensors->dropout_seed,
                                      .dropout_offset = tensors->dropout_offset,
                                      .dropout_place = tensors->dropout_place};
    clattn_backward_tensors backward = {.struct_size = sizeof backward,
                                        .workspace = tensors->workspace,
                                        .dropout_seed = tensors->dropout_seed,
                                        .dropout_offset = tensors->dropout_offset,
                                        .dropout_place = tensors->dropout_place};

    if (operation == CLATTN_PROJECTION)
        return clattn_project(
            plan, queue,
            &(clattn_projection_tensors){.struct_size = sizeof(clattn_projection_tensors),
                                         .x = tensors->at[PROJECTION_X],
                                         .w = tensors->at[PROJECTION_W],
                                         .bias = tensors->at[PROJECTION_BIAS],
                                         .y = tensors->at[PROJECTION_Y],
                                         .workspace = tensors->workspace},
            num_wait, wait, done);
    for (int id = 0; id < NUM_TENSORS; id++) {
        clattn_buffer *place = operation == CLATTN_BACKWARD
                                   ? tensor_backward_buffer(&backward, (enum tensor_id)id)
                                   : tensor_buffer(&forward, (enum tensor_id)id);
        if (place)
            *place = tensors->at[id];
    }
    if (operation == CLATTN_BACKWARD)
        return clattn_attention_backward(plan, queue, &backward, num_wait, wait, done);
    return clattn_attention_forward(plan, queue, &forward, num_wait, wait, done);
}

clattn_host_forward_tensors tensor_host_forward(const struct tensor_view *view)
{
    return (clattn_host_forward_tensors){
        .struct_size = sizeof(clattn_host_forward_tensors),
#define TENSOR(ID, member, text, GIVEN, ...)                                                       \
    TENSOR_IF_FORWARD(GIVEN, .member = (void *)view->at[TENSOR_##ID], )
        TENSORS(TENSOR)
#undef TENSOR
            .dropout_seed = view->dropout_seed,
        .dropout_offset = view->dropout_offset,
        .dropout_place = view->dropout_place,
    };
}

clattn_host_backward_tensors tensor_host_backward(const struct tensor_view *view)
{
    return (clattn_host_backward_tensors){
        .struct_size = sizeof(clattn_host_backward_tensors),
#define TENSOR(ID, member, text, GIVEN, ...)                                                       \
    TENSOR_IF_BACKWARD(GIVEN, .member = (void *)view->at[TENSOR_##ID], )
        TENSORS(TENSOR)
#undef TENSOR
            .dropout_seed = view->dropout_seed,
        .dropout_offset = view->dropout_offset,
        .dropout_place = view->dropout_place,
    };
}

clattn_status tensor_execute_host(clattn_context *context, const clattn_problem *p,
                                  const clattn_plan_options *options,
                                  const struct tensor_view *view)
{
    const clattn_host_forward_tensors forward = tensor_host_forward(view);
    const clattn_host_backward_tensors backward = tensor_host_backward(view);

    return p->operation == CLATTN_BACKWARD
               ? clattn_attention_backward_host(context, p, options, &backward)
               : clattn_attention_forward_host(context, p, options, &forward);
}
