/* SPDX-License-Identifier: Apache-2.0 */
/* Executions of a plan: checked as a whole, then enqueued. */
#ifndef CA_EXECUTE_H
#define CA_EXECUTE_H

#include "execute/launch.h"
#include "execute/plan.h"
#include <clattn/attention.h>

/* The checks that every execution begins with: *done is cleared, the plan is one of this operation,
 * and the struct of tensors is sound: mistake is NULL (ca_struct_read()). */
clattn_status ca_check_call(const clattn_plan *plan, clattn_operation operation,
                            const char *mistake, cl_event *done);

/* Checks everything and enqueues. The public functions are this with other structs. */
clattn_status ca_execute(const clattn_plan *plan, cl_command_queue queue,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done);

/* Enqueues an execution whose arguments were checked. If the plan has nothing to do and done is
 * null, the wait list is dropped. */
clattn_status ca_enqueue(const clattn_plan *plan, cl_command_queue queue, int in_order,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done);

/* A launch of a kernel that no plan has: its first arguments are values, the others buffers. */
struct ca_kernel_launch {
    const char *kernel;
    const struct ca_value {
        size_t bytes;
        const void *value;
    } * values;
    cl_uint num_values;
    const clattn_buffer *buffers;
    cl_uint num_buffers;
    struct ca_ndrange range;
};
clattn_status ca_launch_kernel(const clattn_context *context, cl_program program,
                               const struct ca_kernel_launch *launch, cl_command_queue queue,
                               cl_uint num_wait, const cl_event *wait, cl_event *done);

/* Ends an execution that only waits for the wait list. done may be null. */
clattn_status ca_enqueue_marker(const clattn_context *context, cl_command_queue queue,
                                cl_uint num_wait, const cl_event *wait, cl_event *done);

#endif
