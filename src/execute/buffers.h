/* Checks of what an execution is given: nothing is enqueued before all of them passed. */
#ifndef CA_BUFFERS_H
#define CA_BUFFERS_H

#include "execute/plan.h"
#include "problem/overlap.h"
#include <clattn/attention.h>

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

/* The queue's context and device; *in_order tells its kind. */
clattn_status ca_check_queue(const clattn_context *owner, cl_command_queue queue, int *in_order);

/* The events' number, context and state. */
clattn_status ca_check_wait_list(const clattn_context *owner, cl_uint num_wait,
                                 const cl_event *wait);

#endif
