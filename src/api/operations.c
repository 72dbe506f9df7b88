/* SPDX-License-Identifier: Apache-2.0 */
/* The operations besides attention, on buffers and on host memory. */
#include "problem/operations.h"
#include "api/host_call.h"
#include "base/structs.h"
#include "execute/execute.h"

/* An operand's member in the structs of tensors for the device and for the host: its offset in each, and whether the call
 * writes the operand. */
struct member {
    size_t device, host;
    int is_output;
};

/* The structs of an operation's tensors: their bytes, those that every version has, and their members. */
static const struct {
    size_t bytes, least, workspace, host_bytes, host_least, count;
    struct member members[CA_WORKSPACE];
} structs[CA_NUM_OPERATIONS] = {
#define IS_OUTPUT_input 0
#define IS_OUTPUT_output 1
#define OPERAND(name, ID, member, LAYOUT, role, ...)                                               \
    {offsetof(clattn_##name##_tensors, member), offsetof(clattn_host_##name##_tensors, member),    \
     IS_OUTPUT_##role},
#define OPERATION(ID, name, ...)                                                                   \
    [CLATTN_##ID] = {sizeof(clattn_##name##_tensors),                                              \
                     CA_LEAST_clattn_##name##_tensors,                                             \
                     offsetof(clattn_##name##_tensors, workspace),                                 \
                     sizeof(clattn_host_##name##_tensors),                                         \
                     CA_LEAST_clattn_host_##name##_tensors,                                        \
                     CA_##ID##_COUNT,                                                              \
                     {CA_##ID##_OPERANDS(OPERAND, name)}},
    CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
};

/* A struct of tensors, of any operation. */
union tensors {
#define OPERATION(ID, name, ...)                                                                   \
    clattn_##name##_tensors name;                                                                  \
    clattn_host_##name##_tensors host_##name;
    CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
};

static clattn_status execute(clattn_operation operation, const clattn_plan *plan,
                             cl_command_queue queue, const void *tensors, cl_uint num_wait,
                             const cl_event *wait, cl_event *done)
{
    struct ca_tensors operands = {.seed = 0};
    union tensors own;
    char why[CA_REASON_BYTES];
    const char *t = ca_struct_read("tensors", tensors, structs[operation].bytes,
                                   structs[operation].least, NULL, &own, why);
    const clattn_status status = ca_check_call(plan, operation, t ? NULL : why, done);

    if (status != CLATTN_SUCCESS)
        return status;
    for (size_t n = 0; n < structs[operation].count; n++)
        memcpy(&operands.at[n], t + structs[operation].members[n].device, sizeof *operands.at);
    memcpy(&operands.at[CA_WORKSPACE], t + structs[operation].workspace, sizeof *operands.at);
    return ca_execute(plan, queue, &operands, num_wait, wait, done);
}

static clattn_status execute_host(clattn_operation operation, clattn_context *context,
                                  const clattn_problem *problem, const clattn_plan_options *options,
                                  const void *tensors)
{
    struct ca_transfer transfers[CA_WORKSPACE] = {{.input = NULL}};
    union tensors own;
    char why[CA_REASON_BYTES];
    const char *t = ca_struct_read("tensors", tensors, structs[operation].host_bytes,
                                   structs[operation].host_least, NULL, &own, why);
    const clattn_status status = ca_host_check(context, t ? NULL : why);

    if (status != CLATTN_SUCCESS)
        return status;
    for (size_t n = 0; n < structs[operation].count; n++) {
        const struct member *member = &structs[operation].members[n];
        if (member->is_output)
            memcpy(&transfers[n].output, t + member->host, sizeof transfers[n].output);
        else
            memcpy(&transfers[n].input, t + member->host, sizeof transfers[n].input);
    }
    return ca_host_call(context, problem, options, operation, transfers,
                        &(struct ca_tensors){.seed = 0});
}

#define OPERATION(ID, name, word, noun, call, on_buffers, on_host)                                 \
    clattn_status on_buffers(const clattn_plan *plan, cl_command_queue queue,                      \
                             const clattn_##name##_tensors *tensors, cl_uint num_wait,             \
                             const cl_event *wait, cl_event *done)                                 \
    {                                                                                              \
        return execute(CLATTN_##ID, plan, queue, tensors, num_wait, wait, done);                   \
    }                                                                                              \
                                                                                                   \
    clattn_status on_host(clattn_context *context, const clattn_problem *problem,                  \
                          const clattn_plan_options *options,                                      \
                          const clattn_host_##name##_tensors *tensors)                             \
    {                                                                                              \
        return execute_host(CLATTN_##ID, context, problem, options, tensors);                      \
    }
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
