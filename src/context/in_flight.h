/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that were enqueued and may still run, of all contexts of the process.
 *
 * PoCL 3.1 ends the process when the binary of a program is asked for while a kernel of it runs, or of the same program in
 * another context (doc/design/drivers.md). Where that may happen kernels are counted, and whoever asks for a binary holds
 * them up meanwhile.
 */
#ifndef CA_IN_FLIGHT_H
#define CA_IN_FLIGHT_H

#include <clattn/context.h>

#include <stdbool.h>
#include <stddef.h>

/* A program whose binary will be asked for is there, unless there is no memory for a lock; and is stored, or gone. Between
 * the first one's begin and the last one's end kernels are counted, of all contexts that were made after ca_forks_watch().
 * Those that were enqueued before are not. */
bool ca_in_flight_join(void);
void ca_in_flight_part(void);

/* clEnqueueNDRangeKernel() in three dimensions, without an offset. */
cl_int ca_enqueue_kernel(const clattn_context *context, cl_command_queue queue, cl_kernel kernel,
                         const size_t global[3], const size_t local[3], cl_uint num_wait,
                         const cl_event *wait, cl_event *event);

/* clFinish(), after which no event of the queue's is kept. */
cl_int ca_finish(const clattn_context *context, cl_command_queue queue);

/* Waits until no kernel that is counted runs, and has other threads wait before they enqueue one. False if one still runs,
 * or may, after so many seconds: then nobody waits. Between join and part. */
bool ca_in_flight_hold_up(double seconds);
void ca_in_flight_go_on(void);

#endif
