/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that were enqueued and may still run.
 *
 * PoCL 3.1 ends the process when the binary of a program is asked for while a kernel of it runs
 * (doc/design/drivers.md). Where that may happen, all kernels are enqueued through here, and whoever asks for a
 * binary holds them up meanwhile.
 */
#ifndef CA_IN_FLIGHT_H
#define CA_IN_FLIGHT_H

#include <clattn/export.h>

#include <stdbool.h>
#include <stddef.h>

struct ca_in_flight;

/* needed: 0 where the driver reads binaries at any time; kernels are then enqueued as by OpenCL. NULL without memory. */
struct ca_in_flight *ca_in_flight_create(int needed);
void ca_in_flight_destroy(struct ca_in_flight *kernels);

/* clEnqueueNDRangeKernel() in three dimensions, without an offset. */
cl_int ca_enqueue_kernel(struct ca_in_flight *kernels, cl_command_queue queue, cl_kernel kernel,
                         const size_t global[3], const size_t local[3], cl_uint num_wait,
                         const cl_event *wait, cl_event *event);

/* Waits until no kernel runs, and has other threads wait before they enqueue one. False if one still runs, or may,
 * after so many seconds: then nobody waits. */
bool ca_in_flight_hold_up(struct ca_in_flight *kernels, double seconds);
void ca_in_flight_go_on(struct ca_in_flight *kernels);

#endif
