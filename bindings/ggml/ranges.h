/* Host memory as buffers: a buffer of CL_MEM_USE_HOST_PTR for each stretch of memory that tensors lie in. Tensors that
 * overlap, as values that are columns of the keys, get one buffer, since OpenCL leaves open what happens to two. They
 * live for one operation, because nobody tells a backend when memory is given back. */
#ifndef CLATTN_GGML_RANGES_H
#define CLATTN_GGML_RANGES_H

#include "operation.h"

#define MOST_RANGES 8

struct range {
    char *begin, *end;
    bool written;
    cl_mem memory;
};

struct ranges {
    struct range range[MOST_RANGES];
    size_t count;
};

/* At most MOST_RANGES times. */
void ranges_add(struct ranges *ranges, char *data, size_t bytes, bool written);

/* Makes the buffers; false if one cannot be made. */
bool ranges_make(struct ranges *ranges, cl_context context);

/* Where an operand lies; false where it does not begin at an element of its buffer. */
bool ranges_locate(const struct ranges *ranges, const struct operand *operand,
                   clattn_buffer *buffer);

/* Waits for all work of an in-order queue, after which what was written is in host memory. */
bool ranges_finish(const struct ranges *ranges, cl_command_queue queue);

void ranges_release(struct ranges *ranges);

#endif
