#include "api/host_call.h"
#include "execute/execute.h"
#include <clattn/merge.h>

clattn_status clattn_merge(const clattn_plan *plan, cl_command_queue queue,
                           const clattn_merge_tensors *t, cl_uint num_wait, const cl_event *wait,
                           cl_event *done)
{
    const clattn_status status =
        ca_check_call(plan, CLATTN_MERGE, t && t->struct_size == sizeof *t, done);
    if (status != CLATTN_SUCCESS)
        return status;
    const struct ca_tensors tensors = {
#define OPERAND(ID, member, ...) .at[CA_MERGE_##ID] = t->member,
        CA_MERGE_OPERANDS(OPERAND)
#undef OPERAND
            .at[CA_WORKSPACE] = t->workspace,
    };
    return ca_execute(plan, queue, &tensors, num_wait, wait, done);
}

clattn_status clattn_merge_host(clattn_context *context, const clattn_problem *problem,
                                const clattn_plan_options *options,
                                const clattn_host_merge_tensors *t)
{
    const clattn_status status = ca_host_check(context, t && t->struct_size == sizeof *t);
    if (status != CLATTN_SUCCESS)
        return status;
    struct ca_transfer transfers[CA_WORKSPACE] = {
#define OPERAND(ID, member, LAYOUT, role, ...) [CA_MERGE_##ID] = {.role = t->member},
        CA_MERGE_OPERANDS(OPERAND)
#undef OPERAND
    };
    return ca_host_call(context, problem, options, CLATTN_MERGE, transfers,
                        &(struct ca_tensors){.seed = 0});
}
