/* Checks of what an execution is given: nothing is enqueued before all of them passed. */
#ifndef CA_BUFFERS_H
#define CA_BUFFERS_H

#include "plan.h"
#include <clattn/attention.h>

/* What an execution is given, in either direction. */
struct ca_tensors {
    clattn_buffer at[CA_NUM_ARGUMENTS];
    cl_ulong seed, stream; /* of dropout */
};

/* Presence, kind, context, size and overlaps of the buffers. A null workspace passes. */
clattn_status ca_check_buffers(const clattn_plan *plan, const struct ca_tensors *tensors);

/* Checks everything and enqueues. The public functions are this with other structs. */
clattn_status ca_execute(const clattn_plan *plan, cl_command_queue queue,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done);

/* The queue's context and device; *in_order tells its kind. */
clattn_status ca_check_queue(const clattn_plan *plan, cl_command_queue queue, int *in_order);

/* The events' number, context and state. */
clattn_status ca_check_wait_list(const clattn_plan *plan, cl_uint num_wait, const cl_event *wait);

#endif
