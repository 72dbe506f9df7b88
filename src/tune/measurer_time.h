/* SPDX-License-Identifier: Apache-2.0 */
/* Timing executions: readings, warm-up, and how many readings a candidate gets. */
#ifndef CA_MEASURER_TIME_H
#define CA_MEASURER_TIME_H

#include "execute/buffers.h"
#include "execute/execute.h"
#include "execute/plan.h"
#include "os/clock.h"
#include "search/measurer.h"

struct ca_stopwatch {
    cl_command_queue queue; /* in-order, with profiling */
    const struct ca_log *log;
    double resolution; /* resolution of the device's timer in seconds */
    double warm, hot;  /* least and most busy seconds of a warm-up */
};

/* Sets all but the queue and the log. */
void ca_stopwatch_init(struct ca_stopwatch *watch, const clattn_device_info *dev);

/* The device time from begin to end, by its clock in nanoseconds. If that clock stands still or is
 * wrong, it is the host's seconds, which enclose them. Over 0. */
double ca_stopwatch_elapsed(const struct ca_stopwatch *watch, cl_ulong begin, cl_ulong end,
                            double host);

/* Returns how many executions of that many seconds make a reading that the clock can resolve. */
size_t ca_stopwatch_executions(const struct ca_stopwatch *watch, double seconds);

/* Takes one reading: runs that many executions in a row, waits for them, and divides their time by their number. */
clattn_status ca_stopwatch_read(const struct ca_stopwatch *watch, const clattn_plan *plan,
                                const struct ca_tensors *tensors, size_t executions,
                                double *seconds);

/* Returns whether so few readings show already that it is far slower than the best (0: there is
 * none): one 2.5 times, two 1.5 times, three 1.15 times. */
int ca_readings_suffice(const struct ca_reading *reading, double best);

/* Warms up and takes readings as src/tune/measurer.h says, after a first execution of first seconds;
 * appends them to reading->times. A first execution that is long counts as a reading. */
clattn_status ca_stopwatch_time(const struct ca_stopwatch *watch, const clattn_plan *plan,
                                const struct ca_tensors *tensors, double first, double best,
                                struct ca_reading *reading);

#endif
