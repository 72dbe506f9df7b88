/* Checks of what an execution is given: nothing is enqueued before all of them passed. */
#ifndef CA_BUFFERS_H
#define CA_BUFFERS_H

#include "plan.h"
#include <clattn/attention.h>

/* The buffer for each enum ca_argument. */
const clattn_buffer *ca_buffer_at(const clattn_forward *tensors, enum ca_argument argument);

/* Presence, kind, context, size and overlaps of the buffers. A null workspace passes. */
clattn_status ca_check_buffers(const clattn_plan *plan, const clattn_forward *tensors);

/* The queue's context and device; *in_order tells its kind. */
clattn_status ca_check_queue(const clattn_plan *plan, cl_command_queue queue, int *in_order);

/* The events' number, context and state. */
clattn_status ca_check_wait_list(const clattn_plan *plan, cl_uint num_wait, const cl_event *wait);

#endif
