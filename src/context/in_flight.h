/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that were enqueued and may still run, in all contexts of the process.
 *
 * PoCL 3.1 ends the process when a program's binary is read while a kernel of the program runs, also if that kernel belongs to
 * the same program in another context (doc/design/drivers.md). With such drivers kernels are counted. A thread that reads a
 * binary first waits until no kernel runs, and keeps other threads from enqueueing until it has the binary.
 */
#ifndef CA_IN_FLIGHT_H
#define CA_IN_FLIGHT_H

#include <clattn/context.h>

#include <stdbool.h>
#include <stddef.h>

/* ca_in_flight_join() announces a program whose binary will be read; false if there is no memory for a lock.
 * ca_in_flight_part() says that the binary is stored, or the program released. Kernels are counted while any program is
 * announced, in all contexts that were made after ca_forks_watch(). Kernels that were enqueued earlier are not counted. */
bool ca_in_flight_join(void);
void ca_in_flight_part(void);

/* clEnqueueNDRangeKernel() in three dimensions, without an offset. */
cl_int ca_enqueue_kernel(const clattn_context *context, cl_command_queue queue, cl_kernel kernel,
                         const size_t global[3], const size_t local[3], cl_uint num_wait,
                         const cl_event *wait, cl_event *event);

/* Calls clFinish(), and forgets the events of kernels that have ended. */
cl_int ca_finish(const clattn_context *context, cl_command_queue queue);

/* Called between join and part. Waits up to `seconds` until no counted kernel runs, and keeps other threads from enqueueing
 * until ca_in_flight_go_on(). Returns false, and lets them enqueue, if a kernel may still run then. */
bool ca_in_flight_hold_up(double seconds);
void ca_in_flight_go_on(void);

#endif
