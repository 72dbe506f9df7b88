/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/timing.h"
#include "internal.h"

#include <stdlib.h>

/* After so long the device's clock must have moved by at least this part of it. One execution of
 * two is not timed, and the way to the first may be long. */
#define TELLING_SECONDS 0.01
#define LEAST_PART_BY_DEVICE 0.02

/* The device time in seconds from the end of one command to that of the next, or -1. */
static double step(cl_event from, cl_event to)
{
    cl_ulong t[2];

    if (clGetEventProfilingInfo(from, CL_PROFILING_COMMAND_END, sizeof t[0], &t[0], NULL) !=
            CL_SUCCESS ||
        clGetEventProfilingInfo(to, CL_PROFILING_COMMAND_END, sizeof t[1], &t[1], NULL) !=
            CL_SUCCESS ||
        t[1] <= t[0])
        return -1.0;
    return (double)(t[1] - t[0]) * 1e-9;
}

/* -1 if the device's clock stands still between two ends, or hardly moved in `host` seconds: some
 * drivers stamp events when they are enqueued. */
static double median_step(const cl_event *ends, size_t executions, double host)
{
    double steps[TIMING_MOST], sum = 0.0;

    for (size_t n = 0; n < executions; n++) {
        steps[n] = step(ends[n], ends[n + 1]);
        if (steps[n] < 0.0)
            return -1.0;
        sum += steps[n];
    }
    if (sum < host * LEAST_PART_BY_DEVICE && host > TELLING_SECONDS)
        return -1.0;
    return ca_sort(steps, executions);
}

bool timing_median(const struct target *target, timing_enqueue enqueue, void *work,
                   size_t executions, double *seconds, struct message *why)
{
    cl_event ends[TIMING_MOST + 1];
    const double begin = ca_stopwatch_now();
    size_t enqueued = 0;
    bool ok = true;

    while (ok && enqueued < executions + 1) {
        ok = enqueue(work, &ends[enqueued], why);
        enqueued += ok;
    }
    const cl_int err = clFinish(target->queue);
    if (ok && err != CL_SUCCESS)
        ok = message_set(why, "clFinish failed with %d", err);
    if (ok) {
        const double host = ca_stopwatch_now() - begin;
        *seconds = median_step(ends, executions, host);
        if (*seconds < 0.0)
            *seconds = host / (double)(executions + 1);
    }
    for (size_t n = 0; n < enqueued; n++)
        clReleaseEvent(ends[n]);
    return ok;
}
