/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory as buffers: a buffer, of CL_MEM_USE_HOST_PTR where the device shares memory, for each stretch of memory that
 * tensors lie in. Tensors that overlap, as values that are columns of the keys, get one buffer, since
 * OpenCL leaves open what happens to two.
 *
 * Where the device is the CPU, and a trial shows that it reads and writes host memory itself,
 * buffers are kept: all they hold is an address, which stays true when memory is given back and
 * used again, of which nobody tells a backend. Elsewhere they live for one operation, and are
 * mapped at its end. On a device that has memory of its own buffers are the device's, one for each
 * range in turn, which grow; values are copied before an operation and results after it. */
#ifndef CLATTN_GGML_RANGES_H
#define CLATTN_GGML_RANGES_H

#include "operation.h"

#define MOST_RANGES 8
#define MOST_KEPT 256

struct range {
    char *begin, *end;
    char *used; /* Behind the last value that is read; what follows is room. */
    bool written;
    cl_mem memory;
};

struct ranges {
    struct range range[MOST_RANGES];
    size_t count;
};

/* Buffers by address; the oldest makes room for a new one. */
struct buffers {
    cl_context context;     /* Borrowed, as the queue. */
    cl_command_queue queue; /* In-order. */
    bool copied;            /* To memory of the device. */
    bool kept;
    struct range range[MOST_KEPT];
    size_t made;
    cl_mem staged[MOST_RANGES];
    size_t staged_bytes[MOST_RANGES];
};

/* Finds out whether buffers are to be kept. */
void buffers_open(struct buffers *buffers, cl_context context, cl_command_queue queue,
                  cl_device_id device, bool shares_memory);
void buffers_close(struct buffers *buffers);

/* At most MOST_RANGES times. The first used of the bytes are read. */
void ranges_add(struct ranges *ranges, char *data, size_t bytes, size_t used, bool written);

/* Makes or finds the buffers, and enqueues copies of what is read; false if that fails. */
bool ranges_make(struct ranges *ranges, struct buffers *buffers);

/* Returns where an operand lies; false where it does not begin at an element of its buffer. */
bool ranges_locate(const struct ranges *ranges, const struct operand *operand,
                   clattn_buffer *buffer);

/* Waits for all work of the queue, after which what was written is in host memory. */
bool ranges_finish(const struct ranges *ranges, const struct buffers *buffers);

/* No work may be under way. */
void ranges_release(struct ranges *ranges);

#endif
