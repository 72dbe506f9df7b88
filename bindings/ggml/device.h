/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL device that ggml gets: one, chosen as clattn_device_select() does, before others if it
 * shares memory with the host. Its context lives as long as a backend uses it. */
#ifndef CLATTN_GGML_DEVICE_H
#define CLATTN_GGML_DEVICE_H

#include "host.h"
#include "operation.h"

#include <pthread.h>

#define MOST_VERDICTS 64

/* Tells whether clattn computes a shape; it is asked once for each. */
struct verdict {
    struct shape shape;
    bool supported;
};

struct device {
    const struct host *host;
    cl_device_id id;         /* NULL: there is none. */
    bool shares_memory;      /* With the host. */
    char description[128];   /* OpenCL's name of it. */
    pthread_mutex_t mutex;   /* Of all that follows. */
    clattn_context *context; /* NULL until it is needed, and after the last backend. */
    size_t backends;
    struct verdict verdicts[MOST_VERDICTS]; /* A ring. */
    size_t num_verdicts;
};

/* Finds the device; where there is none id is NULL and ggml's log says why. */
void device_open(struct device *device, const struct host *host);

/* The context, for a backend, which gives it back; NULL after a sentence in the log. */
clattn_context *device_acquire(struct device *device);
void device_release(struct device *device);

/* Returns how many programs the context has compiled; 0 without one. */
size_t device_programs(struct device *device);

/* Returns whether a node can be computed. */
bool device_supports(struct device *device, const struct ggml_tensor *node);

#endif
