/* SPDX-License-Identifier: Apache-2.0 */
#include "ranges.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

static cl_mem make(const struct buffers *buffers, char *begin, char *end)
{
    cl_int error = CL_SUCCESS;
    cl_mem memory = clCreateBuffer(buffers->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                   (size_t)(end - begin), begin, &error);

    return error == CL_SUCCESS ? memory : NULL;
}

/* Returns whether a buffer's contents are the host's memory at any time: what the device writes is
 * seen at once, and what the host writes then is what the device reads. At an address that is no
 * rounder than a tensor's. */
static bool is_host_memory(const struct buffers *buffers)
{
    enum { FLOATS = 1024, AT = 8 };
    float host[AT + FLOATS] = {0.0f}, copy[FLOATS];
    const float pattern = 3.0f;
    cl_mem memory = make(buffers, (char *)(host + AT), (char *)(host + AT + FLOATS));

    if (memory == NULL)
        return false;
    bool same = clEnqueueFillBuffer(buffers->queue, memory, &pattern, sizeof pattern, 0,
                                    sizeof copy, 0, NULL, NULL) == CL_SUCCESS &&
                clFinish(buffers->queue) == CL_SUCCESS;
    for (int n = 0; n < FLOATS; n++) {
        same = same && host[AT + n] == pattern;
        host[AT + n] = (float)n;
    }
    same = same &&
           clEnqueueReadBuffer(buffers->queue, memory, CL_TRUE, 0, sizeof copy, copy, 0, NULL,
                               NULL) == CL_SUCCESS &&
           memcmp(copy, host + AT, sizeof copy) == 0;
    clReleaseMemObject(memory);
    return same;
}

void buffers_open(struct buffers *buffers, cl_context context, cl_command_queue queue,
                  cl_device_id device, bool shares_memory)
{
    cl_device_type type = 0;

    buffers->context = context;
    buffers->queue = queue;
    buffers->made = 0;
    buffers->copied = !shares_memory;
    buffers->kept =
        shares_memory &&
        clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL) == CL_SUCCESS &&
        (type & CL_DEVICE_TYPE_CPU) != 0 && is_host_memory(buffers);
}

static size_t num_kept(const struct buffers *buffers)
{
    return buffers->made < MOST_KEPT ? buffers->made : MOST_KEPT;
}

void buffers_close(struct buffers *buffers)
{
    for (size_t n = 0; n < num_kept(buffers); n++)
        clReleaseMemObject(buffers->range[n].memory);
    buffers->made = 0;
    for (size_t n = 0; n < MOST_RANGES; n++)
        if (buffers->staged[n] != NULL)
            clReleaseMemObject(buffers->staged[n]);
}

/* The buffer of the device's for the range in this place, with the range's values on their way. */
static bool stage(struct buffers *buffers, size_t place, struct range *wanted)
{
    const size_t bytes = (size_t)(wanted->end - wanted->begin);
    cl_int error = CL_SUCCESS;

    if (bytes > buffers->staged_bytes[place]) {
        if (buffers->staged[place] != NULL)
            clReleaseMemObject(buffers->staged[place]);
        buffers->staged[place] =
            clCreateBuffer(buffers->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
        if (error != CL_SUCCESS)
            buffers->staged[place] = NULL;
        buffers->staged_bytes[place] = buffers->staged[place] != NULL ? bytes : 0;
    }
    if (buffers->staged[place] == NULL || clRetainMemObject(buffers->staged[place]) != CL_SUCCESS)
        return false;
    wanted->memory = buffers->staged[place];
    return (wanted->used == wanted->begin ||
            clEnqueueWriteBuffer(buffers->queue, wanted->memory, CL_FALSE, 0,
                                 (size_t)(wanted->used - wanted->begin), wanted->begin, 0, NULL,
                                 NULL) == CL_SUCCESS);
}

/* The range's buffer, with a reference for it. */
static bool buffers_get(struct buffers *buffers, struct range *wanted)
{
    if (buffers->kept)
        for (size_t n = 0; n < num_kept(buffers); n++)
            if (buffers->range[n].begin == wanted->begin && buffers->range[n].end == wanted->end) {
                wanted->memory = buffers->range[n].memory;
                return clRetainMemObject(wanted->memory) == CL_SUCCESS;
            }
    wanted->memory = make(buffers, wanted->begin, wanted->end);
    if (wanted->memory == NULL || !buffers->kept)
        return wanted->memory != NULL;
    struct range *place = &buffers->range[buffers->made % MOST_KEPT];
    if (buffers->made++ >= MOST_KEPT)
        clReleaseMemObject(place->memory);
    *place = *wanted;
    return clRetainMemObject(wanted->memory) == CL_SUCCESS;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

void ranges_add(struct ranges *ranges, char *data, size_t bytes, size_t used, bool written)
{
    struct range all = {
        .begin = data, .end = data + bytes, .used = data + used, .written = written};
    size_t kept = 0;

    for (size_t n = 0; n < ranges->count; n++) {
        const struct range *old = &ranges->range[n];
        if (old->end <= all.begin || all.end <= old->begin) {
            ranges->range[kept++] = *old;
            continue;
        }
        all.begin = old->begin < all.begin ? old->begin : all.begin;
        all.end = old->end > all.end ? old->end : all.end;
        all.used = old->used > all.used ? old->used : all.used;
        all.written |= old->written;
    }
    ranges->range[kept++] = all;
    ranges->count = kept;
}

bool ranges_make(struct ranges *ranges, struct buffers *buffers)
{
    for (size_t n = 0; n < ranges->count; n++)
        if (buffers->copied ? !stage(buffers, n, &ranges->range[n])
                            : !buffers_get(buffers, &ranges->range[n]))
            return false;
    return true;
}

bool ranges_locate(const struct ranges *ranges, const struct operand *operand,
                   clattn_buffer *buffer)
{
    for (size_t n = 0; n < ranges->count; n++) {
        const struct range *r = &ranges->range[n];
        if (operand->data < r->begin || operand->data >= r->end)
            continue;
        const size_t bytes = (size_t)(operand->data - r->begin);
        *buffer = (clattn_buffer){.buffer = r->memory,
                                  .offset = bytes / operand->unit_bytes * operand->unit_values};
        return bytes % operand->unit_bytes == 0;
    }
    return false;
}

/* Mapping is how OpenCL hands memory back to the host; on devices that share it, nothing is
 * copied. */
static bool map(const struct range *r, cl_command_queue queue)
{
    cl_int error = CL_SUCCESS;
    void *mapped = clEnqueueMapBuffer(queue, r->memory, CL_TRUE, CL_MAP_READ, 0,
                                      (size_t)(r->end - r->begin), 0, NULL, NULL, &error);

    return error == CL_SUCCESS &&
           clEnqueueUnmapMemObject(queue, r->memory, mapped, 0, NULL, NULL) == CL_SUCCESS;
}

static bool fetch(const struct range *r, const struct buffers *buffers)
{
    if (buffers->kept || !r->written)
        return true;
    if (!buffers->copied)
        return map(r, buffers->queue);
    return clEnqueueReadBuffer(buffers->queue, r->memory, CL_TRUE, 0, (size_t)(r->end - r->begin),
                               r->begin, 0, NULL, NULL) == CL_SUCCESS;
}

bool ranges_finish(const struct ranges *ranges, const struct buffers *buffers)
{
    bool fine = true;

    for (size_t n = 0; n < ranges->count; n++)
        fine = fetch(&ranges->range[n], buffers) && fine;
    return clFinish(buffers->queue) == CL_SUCCESS && fine;
}

void ranges_release(struct ranges *ranges)
{
    for (size_t n = 0; n < ranges->count; n++)
        if (ranges->range[n].memory != NULL)
            clReleaseMemObject(ranges->range[n].memory);
    ranges->count = 0;
}
