/* Checks of what an execution is given: nothing is enqueued before all of them passed. */
#ifndef CA_BUFFERS_H
#define CA_BUFFERS_H

#include "execute/plan.h"
#include "problem/overlap.h"
#include <clattn/attention.h>

/* What an execution is given, in either direction. */
struct ca_tensors {
    clattn_buffer at[CA_NUM_ARGUMENTS];
    cl_ulong seed;  /* of dropout, */
    cl_uint stream; /* likewise */
};

enum { CA_MAX_OPERANDS = 48 };

/* Presence, kind, context, size and overlaps of count buffers, at most CA_MAX_OPERANDS. what: the
 * text form of what is executed. */
clattn_status ca_check_buffers(const clattn_context *context, const char *what,
                               const struct ca_operand *operands, const clattn_buffer *given,
                               size_t count);

/* The elements of an operand that has some, from a byte of a memory on. */
struct ca_places ca_operand_places(const struct ca_operand *operand, uint64_t begin);

/* Refuses operand n's being written where operand m lies, which places[] tell; for what is apart
 * success. */
clattn_status ca_check_overlap(const struct ca_log *log, const struct ca_operand *operands,
                               const struct ca_places *places, size_t n, size_t m);

/* What every execution begins with: *done is cleared, the plan is one of this operation, and its
 * argument struct is complete, that is, there is one of this version. */
clattn_status ca_check_call(const clattn_plan *plan, clattn_operation operation, int complete,
                            cl_event *done);

/* Checks everything and enqueues. The public functions are this with other structs. */
clattn_status ca_execute(const clattn_plan *plan, cl_command_queue queue,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done);

/* Enqueues what was checked. Where the plan has nothing to do and done is null, the wait list is
 * dropped. */
clattn_status ca_enqueue(const clattn_plan *plan, cl_command_queue queue, int in_order,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done);

/* The end of nothing but the wait list. done may be null. */
clattn_status ca_enqueue_marker(const clattn_context *context, cl_command_queue queue,
                                cl_uint num_wait, const cl_event *wait, cl_event *done);

/* The queue's context and device; *in_order tells its kind. */
clattn_status ca_check_queue(const clattn_context *owner, cl_command_queue queue, int *in_order);

/* The events' number, context and state. */
clattn_status ca_check_wait_list(const clattn_context *owner, cl_uint num_wait,
                                 const cl_event *wait);

#endif
