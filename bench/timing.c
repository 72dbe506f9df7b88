#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "timing.h"

#include <stdlib.h>
#include <time.h>

double timing_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

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

static bool median_step(const cl_event *ends, size_t executions, double *seconds,
                        struct message *why)
{
    double steps[TIMING_MOST];

    for (size_t n = 0; n < executions; n++) {
        steps[n] = step(ends[n], ends[n + 1]);
        if (steps[n] < 0.0)
            return message_set(why, "the device's clock does not advance between executions");
    }
    qsort(steps, executions, sizeof *steps, ascending);
    *seconds = (steps[executions / 2] + steps[(executions - 1) / 2]) / 2.0;
    return true;
}

bool timing_median(const struct target *target, timing_enqueue enqueue, void *work,
                   size_t executions, double *seconds, struct message *why)
{
    cl_event ends[TIMING_MOST + 1];
    size_t enqueued = 0;
    bool ok = true;

    while (ok && enqueued < executions + 1) {
        ok = enqueue(work, &ends[enqueued], why);
        enqueued += ok;
    }
    const cl_int err = clFinish(target->queue);
    if (ok && err != CL_SUCCESS)
        ok = message_set(why, "clFinish failed with %d", err);
    ok = ok && median_step(ends, executions, seconds, why);
    for (size_t n = 0; n < enqueued; n++)
        clReleaseEvent(ends[n]);
    return ok;
}
