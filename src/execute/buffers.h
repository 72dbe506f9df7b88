/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of an execution's arguments; nothing is enqueued before all of them have passed. */
#ifndef CA_BUFFERS_H
#define CA_BUFFERS_H

#include "execute/plan.h"
#include "problem/overlap.h"
#include <clattn/attention.h>

enum { CA_MAX_OPERANDS = 48 };

/* Checks presence, kind, context, size and overlaps of `count` buffers, at most CA_MAX_OPERANDS.
 * what: the text form of the problem or layer that is executed. */
clattn_status ca_check_buffers(const clattn_context *context, const char *what,
                               const struct ca_operand *operands, const clattn_buffer *given,
                               size_t count);

/* Returns whether any memory is given. */
int ca_buffer_is_given(const clattn_buffer *buffer);

/* Sets a kernel's argument to the memory, or to none. */
cl_int ca_buffer_set(const clattn_context *context, cl_kernel kernel, cl_uint index,
                     const clattn_buffer *buffer);

/* Copies bytes from a byte of the memory on to host memory and waits. */
cl_int ca_buffer_read(const clattn_context *context, cl_command_queue queue,
                      const clattn_buffer *buffer, size_t begin, size_t bytes, void *to);

/* Kernels assume that an operand's memory is aligned as buffers are. So a pointer is rounded down to that alignment, and the
 * offset grows by the same distance. Operands in blocks stay as they are, since kernels assume no alignment of these. */
clattn_buffer ca_buffer_aligned(const struct ca_operand *operand, clattn_buffer buffer);

/* The elements of an operand (at least one), in memory from byte `begin` on. */
struct ca_places ca_operand_places(const struct ca_operand *operand, uint64_t begin);

/* Refuses a written operand n that overlaps operand m, both given in places[]; CLATTN_SUCCESS if
 * they do not overlap. */
clattn_status ca_check_overlap(const struct ca_log *log, const struct ca_operand *operands,
                               const struct ca_places *places, size_t n, size_t m);

/* The queue's context and device; *in_order tells its kind. */
clattn_status ca_check_queue(const clattn_context *owner, cl_command_queue queue, int *in_order);

/* The events' number, context and state. */
clattn_status ca_check_wait_list(const clattn_context *owner, cl_uint num_wait,
                                 const cl_event *wait);

#endif
