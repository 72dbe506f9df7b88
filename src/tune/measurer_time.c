/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/measurer_time.h"
#include "execute/execute.h"

#include <math.h>

/* A reading lasts at least so many seconds and so many ticks of the device's timer. */
#define LEAST_SECONDS 0.5e-3
#define LEAST_TICKS 50.0
#define NOISE_TICKS 2.0 /* the clock of Mesa 22.3's rusticl shows 1 ns whatever has run */
enum { MOST_EXECUTIONS = 1000 };

/* An execution this long needs no warm-up, or serves as one. */
#define LONG_SECONDS 0.05
#define AGREEMENT 1.05 /* between the readings of a warm-up */
enum { AGREEING = 3 };

/* The number of readings, unless fewer suffice. There may be more, up to MOST_READINGS, within FURTHER_SECONDS. */
enum { LEAST_READINGS = 3, MOST_READINGS = 5 };
#define FURTHER_SECONDS 0.25

void ca_stopwatch_init(struct ca_stopwatch *watch, const clattn_device_info *dev)
{
    size_t nanoseconds = 0;
    const int cpu = (dev->type & CL_DEVICE_TYPE_CPU) != 0;

    if (clGetDeviceInfo(dev->device, CL_DEVICE_PROFILING_TIMER_RESOLUTION, sizeof nanoseconds,
                        &nanoseconds, NULL) != CL_SUCCESS)
        nanoseconds = 1000;
    watch->resolution = (double)nanoseconds * 1e-9;
    /* A GPU's clocks rise with work, for milliseconds. On a CPU readings scatter for other reasons,
     * which no warm-up ends. */
    watch->warm = cpu ? 0.002 : 0.02;
    watch->hot = cpu ? 0.04 : 0.3;
}

double ca_stopwatch_elapsed(const struct ca_stopwatch *watch, cl_ulong begin, cl_ulong end,
                            double host)
{
    const double device = end > begin ? (double)(end - begin) * 1e-9 : 0.0;
    const double ticks = NOISE_TICKS * fmax(watch->resolution, 1e-9);

    return device > ticks && device <= 1.1 * host ? device : fmax(host, 1e-9);
}

size_t ca_stopwatch_executions(const struct ca_stopwatch *watch, double seconds)
{
    const double least = fmax(LEAST_SECONDS, LEAST_TICKS * watch->resolution);
    const double executions = ceil(least / seconds);

    return executions < (double)MOST_EXECUTIONS ? (size_t)fmax(executions, 1.0) : MOST_EXECUTIONS;
}

/* ---- one reading ---------------------------------------------------------------------------- */

/* Asks for the times of the first command's beginning and the last one's end; the same time twice
 * where the device does not tell. A marker that precedes the first command counts from its end. */
static void ask_clock(cl_event first, cl_profiling_info what, cl_event last, cl_ulong *begin,
                      cl_ulong *end)
{
    if (clGetEventProfilingInfo(first, what, sizeof *begin, begin, NULL) != CL_SUCCESS ||
        clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof *end, end, NULL) !=
            CL_SUCCESS)
        *begin = *end = 0;
}

static clattn_status check_end(const struct ca_stopwatch *watch, cl_event last)
{
    cl_int state = CL_COMPLETE;
    const cl_int err =
        clGetEventInfo(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);

    if (err != CL_SUCCESS)
        return ca_fail_cl(watch->log, err, "clGetEventInfo for a measurement");
    return state < 0 ? ca_fail_cl(watch->log, state, "a kernel") : CLATTN_SUCCESS;
}

clattn_status ca_stopwatch_read(const struct ca_stopwatch *watch, const clattn_plan *plan,
                                const struct ca_tensors *tensors, size_t executions,
                                double *seconds)
{
    const int marked =
        plan->candidate.family->num_stages > 1; /* an execution ends with one event */
    cl_event first = NULL, last = NULL;
    clattn_status status = CLATTN_SUCCESS;
    cl_ulong begin = 0, end = 0;
    cl_int err = CL_SUCCESS;

    *seconds = 0.0;
    const double start = ca_stopwatch_now();
    if (marked)
        err = clEnqueueMarkerWithWaitList(watch->queue, 0, NULL, &first);
    if (err != CL_SUCCESS)
        return ca_fail_cl(watch->log, err, "clEnqueueMarkerWithWaitList for a measurement");
    for (size_t n = 0; n < executions && status == CLATTN_SUCCESS; n++) {
        const int ends = n + 1 == executions;
        cl_event *event = ends ? &last : n == 0 && !marked ? &first : NULL;
        status = ca_execute(plan, watch->queue, tensors, 0, NULL, event);
    }
    err = clFinish(watch->queue); /* after a failure too: the buffers are in use */
    const double host = (ca_stopwatch_now() - start);
    if (status == CLATTN_SUCCESS && err != CL_SUCCESS)
        status = ca_fail_cl(watch->log, err, "clFinish after a measurement");
    if (status == CLATTN_SUCCESS)
        status = check_end(watch, last);
    if (status == CLATTN_SUCCESS) {
        ask_clock(first ? first : last,
                  marked ? CL_PROFILING_COMMAND_END : CL_PROFILING_COMMAND_START, last, &begin,
                  &end);
        *seconds = ca_stopwatch_elapsed(watch, begin, end, host) / (double)executions;
    }
    if (first)
        clReleaseEvent(first);
    if (last)
        clReleaseEvent(last);
    return status;
}

/* ---- a candidate ---------------------------------------------------------------------------- */

static int agree(const double times[AGREEING])
{
    double least = times[0], most = times[0];

    for (int n = 1; n < AGREEING; n++) {
        least = fmin(least, times[n]);
        most = fmax(most, times[n]);
    }
    return most <= AGREEMENT * least;
}

/* *seconds: what an execution takes, before and after. */
static clattn_status warm_up(const struct ca_stopwatch *watch, const clattn_plan *plan,
                             const struct ca_tensors *tensors, double *seconds)
{
    double times[AGREEING], busy = 0.0;

    for (size_t n = 0; busy < watch->hot; n++) {
        const size_t executions = ca_stopwatch_executions(watch, *seconds);
        const clattn_status status = ca_stopwatch_read(watch, plan, tensors, executions, seconds);
        if (status != CLATTN_SUCCESS)
            return status;
        busy += *seconds * (double)executions;
        times[n % AGREEING] = *seconds;
        if (n + 1 >= AGREEING && busy >= watch->warm && agree(times))
            break;
    }
    return CLATTN_SUCCESS;
}

/* Another program can slow one reading down to twice the time on two cores, but rarely two readings in a row. So the limit
 * falls with the number of readings. After three a candidate is out that is too slow to be a finalist of a race
 * (FINALIST_MARGIN, src/search/session_result.c). */
int ca_readings_suffice(const struct ca_reading *reading, double best)
{
    static const double far[] = {INFINITY, 2.5, 1.5, 1.15};
    const size_t last = sizeof far / sizeof *far - 1, n = reading->num_times;
    double least = INFINITY;

    for (size_t t = 0; t < n; t++)
        least = fmin(least, reading->times[t]);
    return best > 0.0 && n > 0 && least > far[n < last ? n : last] * best;
}

clattn_status ca_stopwatch_time(const struct ca_stopwatch *watch, const clattn_plan *plan,
                                const struct ca_tensors *tensors, double first, double best,
                                struct ca_reading *reading)
{
    clattn_status status = CLATTN_SUCCESS;
    double seconds = first, third = 0.0;

    if (first > LONG_SECONDS) {
        status = ca_stopwatch_read(watch, plan, tensors, 1, &seconds);
        if (first <= AGREEMENT * seconds) /* else it has waited for the compiler, or for memory */
            reading->times[reading->num_times++] = first;
        if (seconds > LONG_SECONDS)
            reading->times[reading->num_times++] = seconds;
    }
    if (status == CLATTN_SUCCESS && reading->num_times == 0)
        status = warm_up(watch, plan, tensors, &seconds);
    while (status == CLATTN_SUCCESS && reading->num_times < MOST_READINGS &&
           !ca_readings_suffice(reading, best)) {
        if (reading->num_times == LEAST_READINGS)
            third = ca_stopwatch_now();
        if (reading->num_times >= LEAST_READINGS && ca_stopwatch_now() - third >= FURTHER_SECONDS)
            break;
        status = ca_stopwatch_read(watch, plan, tensors, ca_stopwatch_executions(watch, seconds),
                                   &seconds);
        if (status == CLATTN_SUCCESS)
            reading->times[reading->num_times++] = seconds;
    }
    return status;
}
