/* SPDX-License-Identifier: Apache-2.0 */
#include "context/in_flight.h"
#include "context/context.h"
#include "os/clock.h"
#include "os/forks.h"
#include "os/thread.h"

enum { MOST_KERNELS = 256 }; /* those of out-of-order queues, and the last of each other queue */

/* A forked child begins with an empty list: it has none of its parent's kernels, and the lock may be held by a thread that
 * only the parent has. */
static struct {
    /* 2 (ca_forks() + 1) while it is prepared for this process, one more when it is ready */
    atomic_uint state;
    struct ca_mutex lock;   /* held while a kernel is enqueued, and while kernels are held up */
    atomic_size_t programs; /* programs whose binaries will be read; 0: nothing is counted */
    size_t count;
    struct counted {
        cl_command_queue queue; /* borrowed: the event keeps it */
        cl_event event;
    } of[MOST_KERNELS]; /* kernels that may still run; no memory is allocated while an execution is enqueued */
    bool unknown; /* there were more */
} kernels;

static unsigned state_when_ready(void)
{
    return 2 * (ca_forks() + 1) + 1;
}

static bool prepare(void)
{
    const unsigned ready = state_when_ready(), preparing = ready - 1;
    unsigned seen;

    while ((seen = atomic_load(&kernels.state)) != ready) {
        if (seen == preparing ||
            !atomic_compare_exchange_strong(&kernels.state, &seen, preparing)) {
            ca_yield();
            continue;
        }
        const bool locks = ca_mutex_init(&kernels.lock);
        atomic_store(&kernels.programs, 0);
        kernels.count = 0;
        kernels.unknown = false;
        atomic_store(&kernels.state, locks ? ready : seen);
        if (!locks)
            return false;
    }
    return true;
}

/* Forgets the kernels that have run, or failed. */
static void forget_ended(void)
{
    size_t left = 0;

    for (size_t n = 0; n < kernels.count; n++) {
        cl_int state = CL_COMPLETE;
        if (clGetEventInfo(kernels.of[n].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                           &state, NULL) == CL_SUCCESS &&
            state > CL_COMPLETE)
            kernels.of[left++] = kernels.of[n];
        else
            clReleaseEvent(kernels.of[n].event);
    }
    kernels.count = left;
}

static bool counts(const clattn_context *context)
{
    return context->counts_kernels && atomic_load(&kernels.state) == state_when_ready() &&
           atomic_load(&kernels.programs) > 0;
}

bool ca_in_flight_join(void)
{
    if (!prepare())
        return false;
    ca_mutex_lock(&kernels.lock);
    atomic_fetch_add(&kernels.programs, 1);
    ca_mutex_unlock(&kernels.lock);
    return true;
}

void ca_in_flight_part(void)
{
    ca_mutex_lock(&kernels.lock);
    forget_ended();
    if (atomic_fetch_sub(&kernels.programs, 1) == 1) { /* no other binary will be read */
        for (size_t n = 0; n < kernels.count; n++)
            clReleaseEvent(kernels.of[n].event);
        kernels.count = 0;
        kernels.unknown = false;
    }
    ca_mutex_unlock(&kernels.lock);
}

/* Returns whether a queue's kernels end in the order in which they were enqueued. The last one's event then stands for all. */
static bool is_in_order(cl_command_queue queue)
{
    cl_command_queue_properties properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;

    clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    return !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

/* Counts a kernel, and takes ownership of a reference to its event. */
static void count_kernel(cl_command_queue queue, cl_event event)
{
    size_t n = 0;

    while (n < kernels.count && !(kernels.of[n].queue == queue && is_in_order(queue)))
        n++;
    if (n < kernels.count) {
        clReleaseEvent(kernels.of[n].event);
        kernels.of[n].event = event;
        return;
    }
    if (kernels.count == MOST_KERNELS)
        forget_ended();
    if (kernels.count < MOST_KERNELS) {
        kernels.of[kernels.count++] = (struct counted){queue, event};
    } else {
        kernels.unknown = true;
        clReleaseEvent(event);
    }
}

cl_int ca_enqueue_kernel(const clattn_context *context, cl_command_queue queue, cl_kernel kernel,
                         const size_t global[3], const size_t local[3], cl_uint num_wait,
                         const cl_event *wait, cl_event *event)
{
    cl_event counted;

    if (!counts(context))
        return clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, num_wait, wait, event);
    ca_mutex_lock(&kernels.lock);
    const cl_int err =
        clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, num_wait, wait, &counted);
    if (err == CL_SUCCESS && event) {
        *event = counted;
        clRetainEvent(counted);
    }
    if (err == CL_SUCCESS && counts(context))
        count_kernel(queue, counted);
    else if (err == CL_SUCCESS) /* the last program was stored while this thread waited */
        clReleaseEvent(counted);
    ca_mutex_unlock(&kernels.lock);
    return err;
}

cl_int ca_finish(const clattn_context *context, cl_command_queue queue)
{
    const cl_int err = clFinish(queue);

    if (counts(context)) {
        ca_mutex_lock(&kernels.lock);
        forget_ended();
        ca_mutex_unlock(&kernels.lock);
    }
    return err;
}

bool ca_in_flight_hold_up(double seconds)
{
    const double end = ca_stopwatch_now() + seconds, pause = 0.0005;

    ca_mutex_lock(&kernels.lock);
    for (forget_ended(); kernels.count > 0 && ca_stopwatch_now() < end; forget_ended())
        ca_nap(pause);
    if (kernels.count == 0 && !kernels.unknown)
        return true;
    ca_mutex_unlock(&kernels.lock);
    return false;
}

void ca_in_flight_go_on(void)
{
    ca_mutex_unlock(&kernels.lock);
}
