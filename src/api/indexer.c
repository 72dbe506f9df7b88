/* SPDX-License-Identifier: Apache-2.0 */
#include "api/host_call.h"
#include "base/structs.h"
#include "execute/execute.h"
#include <clattn/indexer.h>

clattn_status clattn_indexer(const clattn_plan *plan, cl_command_queue queue,
                             const clattn_indexer_tensors *tensors, cl_uint num_wait,
                             const cl_event *wait, cl_event *done)
{
    clattn_indexer_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_indexer_tensors *t =
        CA_READ(clattn_indexer_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_check_call(plan, CLATTN_INDEXER, t ? NULL : why, done);
    if (status != CLATTN_SUCCESS)
        return status;
    const struct ca_tensors operands = {
#define OPERAND(ID, member, ...) .at[CA_INDEXER_##ID] = t->member,
        CA_INDEXER_OPERANDS(OPERAND)
#undef OPERAND
            .at[CA_WORKSPACE] = t->workspace,
    };
    return ca_execute(plan, queue, &operands, num_wait, wait, done);
}

clattn_status clattn_indexer_host(clattn_context *context, const clattn_problem *problem,
                                  const clattn_plan_options *options,
                                  const clattn_host_indexer_tensors *tensors)
{
    clattn_host_indexer_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_host_indexer_tensors *t =
        CA_READ(clattn_host_indexer_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_host_check(context, t ? NULL : why);
    if (status != CLATTN_SUCCESS)
        return status;
    struct ca_transfer transfers[CA_WORKSPACE] = {
#define OPERAND(ID, member, LAYOUT, role, ...) [CA_INDEXER_##ID] = {.role = t->member},
        CA_INDEXER_OPERANDS(OPERAND)
#undef OPERAND
    };
    return ca_host_call(context, problem, options, CLATTN_INDEXER, transfers,
                        &(struct ca_tensors){.seed = 0});
}
