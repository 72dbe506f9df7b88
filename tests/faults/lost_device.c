/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded before OpenCL's loader: a device that disappears. From the first kernel with LOST_HEADS
 * groups in the second dimension on, no kernel can be enqueued; or the environment's LOST_DEVICE
 * says what its driver does instead, `hang` or `crash`. */
#define _GNU_SOURCE /* RTLD_NEXT */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOST_HEADS = 7 };

static int lost; /* one thread enqueues */

static void misbehave(const char *how)
{
    if (strcmp(how, "crash") == 0)
        abort();
    while (strcmp(how, "hang") == 0)
        pause();
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    cl_int (*next)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                   const size_t *, cl_uint, const cl_event *, cl_event *);
    void *symbol = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");

    lost = lost || (dimensions > 1 && global[1] == LOST_HEADS);
    if (lost && getenv("LOST_DEVICE") != NULL)
        misbehave(getenv("LOST_DEVICE"));
    if (lost || symbol == NULL)
        return CL_DEVICE_NOT_AVAILABLE;
    memcpy(&next, &symbol, sizeof next); /* no cast from an object to a function in C */
    return next(queue, kernel, dimensions, offset, global, local, num_wait, wait, done);
}
