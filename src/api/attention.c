/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients, on buffers and on host memory. */
#include "api/host_call.h"
#include "base/structs.h"
#include "execute/execute.h"

/* Members of struct ca_tensors that are no buffers, from the public struct t. */
#define CALL_VALUES                                                                                \
    .seed = t->dropout_seed, .stream = t->dropout_offset, .place = t->dropout_place,               \
    .function_values = t->function_values, .whole_queries = t->whole_queries,                      \
    .whole_keys = t->whole_keys

clattn_status clattn_attention_forward(const clattn_plan *plan, cl_command_queue queue,
                                       const clattn_forward_tensors *tensors, cl_uint num_wait,
                                       const cl_event *wait, cl_event *done)
{
    clattn_forward_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_forward_tensors *t =
        CA_READ(clattn_forward_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_check_call(plan, CLATTN_FORWARD, t ? NULL : why, done);
    if (status != CLATTN_SUCCESS)
        return status;
    const struct ca_tensors operands = {
#define OPERAND(ID, member, GIVEN, WRITER, ...) CA_OF_FORWARD(GIVEN, .at[CA_##ID] = t->member, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .at[CA_WORKSPACE] = t->workspace,
        CALL_VALUES,
        .function_version = t->function_version,
    };
    return ca_execute(plan, queue, &operands, num_wait, wait, done);
}

clattn_status clattn_attention_backward(const clattn_plan *plan, cl_command_queue queue,
                                        const clattn_backward_tensors *tensors, cl_uint num_wait,
                                        const cl_event *wait, cl_event *done)
{
    clattn_backward_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_backward_tensors *t =
        CA_READ(clattn_backward_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_check_call(plan, CLATTN_BACKWARD, t ? NULL : why, done);
    if (status != CLATTN_SUCCESS)
        return status;
    const struct ca_tensors operands = {
#define OPERAND(ID, member, GIVEN, WRITER, ...) CA_OF_BACKWARD(GIVEN, .at[CA_##ID] = t->member, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .at[CA_WORKSPACE] = t->workspace,
        CALL_VALUES,
        .function_version = t->function_version,
    };
    return ca_execute(plan, queue, &operands, num_wait, wait, done);
}

clattn_status clattn_attention_forward_host(clattn_context *context, const clattn_problem *problem,
                                            const clattn_plan_options *options,
                                            const clattn_host_forward_tensors *tensors)
{
    clattn_host_forward_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_host_forward_tensors *t =
        CA_READ(clattn_host_forward_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_host_check(context, t ? NULL : why);
    if (status != CLATTN_SUCCESS)
        return status;
    struct ca_transfer transfers[CA_WORKSPACE] = {
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CA_OF_FORWARD(GIVEN, [CA_##ID].CA_FORWARD_ROLE_##WRITER = t->member, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };
    return ca_host_call(context, problem, options, CLATTN_FORWARD, transfers,
                        &(struct ca_tensors){CALL_VALUES});
}

clattn_status clattn_attention_backward_host(clattn_context *context, const clattn_problem *problem,
                                             const clattn_plan_options *options,
                                             const clattn_host_backward_tensors *tensors)
{
    clattn_host_backward_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_host_backward_tensors *t =
        CA_READ(clattn_host_backward_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_host_check(context, t ? NULL : why);
    if (status != CLATTN_SUCCESS)
        return status;
    struct ca_transfer transfers[CA_WORKSPACE] = {
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CA_OF_BACKWARD(GIVEN, [CA_##ID].CA_BACKWARD_ROLE_##WRITER = t->member, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };
    return ca_host_call(context, problem, options, CLATTN_BACKWARD, transfers,
                        &(struct ca_tensors){CALL_VALUES});
}
