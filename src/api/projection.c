#include "api/host_call.h"
#include "base/structs.h"
#include "execute/execute.h"
#include <clattn/projection.h>

clattn_status clattn_project(const clattn_plan *plan, cl_command_queue queue,
                             const clattn_projection_tensors *tensors, cl_uint num_wait,
                             const cl_event *wait, cl_event *done)
{
    clattn_projection_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_projection_tensors *t =
        CA_READ(clattn_projection_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_check_call(plan, CLATTN_PROJECTION, t ? NULL : why, done);
    if (status != CLATTN_SUCCESS)
        return status;
    const struct ca_tensors operands = {
        .at = {[CA_Q] = t->x,
               [CA_K] = t->w,
               [CA_O] = t->y,
               [CA_BIAS] = t->bias,
               [CA_WORKSPACE] = t->workspace},
    };
    return ca_execute(plan, queue, &operands, num_wait, wait, done);
}

clattn_status clattn_project_host(clattn_context *context, const clattn_problem *problem,
                                  const clattn_plan_options *options,
                                  const clattn_host_projection_tensors *tensors)
{
    clattn_host_projection_tensors own;
    char why[CA_REASON_BYTES];
    const clattn_host_projection_tensors *t =
        CA_READ(clattn_host_projection_tensors, "tensors", tensors, &own, why);
    const clattn_status status = ca_host_check(context, t ? NULL : why);
    if (status != CLATTN_SUCCESS)
        return status;
    struct ca_transfer transfers[CA_WORKSPACE] = {
        [CA_Q] = {.input = t->x},
        [CA_K] = {.input = t->w},
        [CA_BIAS] = {.input = t->bias},
        [CA_O] = {.output = t->y},
    };
    return ca_host_call(context, problem, options, CLATTN_PROJECTION, transfers,
                        &(struct ca_tensors){.seed = 0});
}
