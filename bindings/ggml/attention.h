/* SPDX-License-Identifier: Apache-2.0 */
/* One operation after another on a queue of its own: what a backend keeps from call to call. */
#ifndef CLATTN_GGML_ATTENTION_H
#define CLATTN_GGML_ATTENTION_H

#include "device.h"
#include "operation.h"
#include "plans.h"
#include "ranges.h"

/* Memory that grows to the largest request; its contents are lost when it does. */
struct scratch {
    void *data;
    size_t bytes;
};

struct attention {
    struct device *device;
    clattn_context *context; /* NULL: everything fails. */
    cl_command_queue queue;
    struct plans plans;
    struct buffers buffers;
    cl_mem workspace;
    size_t workspace_bytes;
    struct scratch mask;    /* A mask that is copied. */
    struct scratch lengths; /* Keys in use, of each batch. */
};

/* False, after a sentence in the log, if there is no context or no queue. */
bool attention_open(struct attention *a, struct device *device);

/* Computes an operation, whose tensors have memory, and waits for it. Where that fails its result is
 * undefined. */
bool attention_compute(struct attention *a, const struct operation *operation);

void attention_close(struct attention *a);

#endif
