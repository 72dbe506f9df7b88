/* SPDX-License-Identifier: Apache-2.0 */
#include "context/in_flight.h"
#include "os/clock.h"
#include "os/thread.h"

#include <stdlib.h>

struct ca_in_flight {
    int records;          /* 0: kernels are only enqueued */
    struct ca_mutex lock; /* held while a kernel is enqueued, and while kernels are held up */
    cl_event *events;     /* of kernels that may still run */
    size_t count, room;
    int unknown; /* not 0: there was no memory for the event of a kernel */
};

struct ca_in_flight *ca_in_flight_create(int needed)
{
    struct ca_in_flight *kernels = calloc(1, sizeof *kernels);

    if (kernels && ca_mutex_init(&kernels->lock)) {
        kernels->records = needed;
        return kernels;
    }
    free(kernels);
    return NULL;
}

/* Forgets the kernels that have run, or failed. */
static void forget_ended(struct ca_in_flight *kernels)
{
    size_t left = 0;

    for (size_t n = 0; n < kernels->count; n++) {
        cl_int state = CL_COMPLETE;
        if (clGetEventInfo(kernels->events[n], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                           &state, NULL) == CL_SUCCESS &&
            state > CL_COMPLETE)
            kernels->events[left++] = kernels->events[n];
        else
            clReleaseEvent(kernels->events[n]);
    }
    kernels->count = left;
}

void ca_in_flight_destroy(struct ca_in_flight *kernels)
{
    if (!kernels)
        return;
    for (size_t n = 0; n < kernels->count; n++)
        clReleaseEvent(kernels->events[n]);
    free(kernels->events);
    ca_mutex_destroy(&kernels->lock);
    free(kernels);
}

static bool make_room(struct ca_in_flight *kernels)
{
    enum { LEAST = 32 };

    if (kernels->count < kernels->room)
        return true;
    forget_ended(kernels);
    if (kernels->room > 0 && kernels->count <= kernels->room / 2)
        return true;
    const size_t room = kernels->room > 0 ? 2 * kernels->room : LEAST;
    cl_event *events = realloc(kernels->events, room * sizeof(cl_event));
    if (!events)
        return kernels->count < kernels->room;
    kernels->events = events;
    kernels->room = room;
    return true;
}

/* Takes over a reference of the event's. */
static void record(struct ca_in_flight *kernels, cl_event event)
{
    if (make_room(kernels)) {
        kernels->events[kernels->count++] = event;
    } else {
        kernels->unknown = 1;
        clReleaseEvent(event);
    }
}

cl_int ca_enqueue_kernel(struct ca_in_flight *kernels, cl_command_queue queue, cl_kernel kernel,
                         const size_t global[3], const size_t local[3], cl_uint num_wait,
                         const cl_event *wait, cl_event *event)
{
    cl_event recorded;

    if (!kernels->records)
        return clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, num_wait, wait, event);
    ca_mutex_lock(&kernels->lock);
    const cl_int err =
        clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, num_wait, wait, &recorded);
    if (err == CL_SUCCESS && event) {
        *event = recorded;
        clRetainEvent(recorded);
    }
    if (err == CL_SUCCESS)
        record(kernels, recorded);
    ca_mutex_unlock(&kernels->lock);
    return err;
}

bool ca_in_flight_hold_up(struct ca_in_flight *kernels, double seconds)
{
    const double end = ca_stopwatch_now() + seconds, pause = 0.0005;

    if (!kernels->records)
        return true;
    ca_mutex_lock(&kernels->lock);
    for (forget_ended(kernels); kernels->count > 0 && ca_stopwatch_now() < end;
         forget_ended(kernels))
        ca_nap(pause);
    if (kernels->count == 0 && !kernels->unknown)
        return true;
    ca_mutex_unlock(&kernels->lock);
    return false;
}

void ca_in_flight_go_on(struct ca_in_flight *kernels)
{
    if (kernels->records)
        ca_mutex_unlock(&kernels->lock);
}
