#include "ranges.h"

void ranges_add(struct ranges *ranges, char *data, size_t bytes, bool written)
{
    struct range all = {.begin = data, .end = data + bytes, .written = written};
    size_t kept = 0;

    for (size_t n = 0; n < ranges->count; n++) {
        const struct range *old = &ranges->range[n];
        if (old->end <= all.begin || all.end <= old->begin) {
            ranges->range[kept++] = *old;
            continue;
        }
        all.begin = old->begin < all.begin ? old->begin : all.begin;
        all.end = old->end > all.end ? old->end : all.end;
        all.written |= old->written;
    }
    ranges->range[kept++] = all;
    ranges->count = kept;
}

bool ranges_make(struct ranges *ranges, cl_context context)
{
    for (size_t n = 0; n < ranges->count; n++) {
        struct range *r = &ranges->range[n];
        const cl_mem_flags access = r->written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
        cl_int error = CL_SUCCESS;
        r->memory = clCreateBuffer(context, access | CL_MEM_USE_HOST_PTR,
                                   (size_t)(r->end - r->begin), r->begin, &error);
        if (error != CL_SUCCESS)
            return false;
    }
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

/* Mapping is how OpenCL hands memory back to the host; on devices that share it, nothing is copied. */
bool ranges_finish(const struct ranges *ranges, cl_command_queue queue)
{
    bool fine = true;

    for (size_t n = 0; n < ranges->count; n++) {
        const struct range *r = &ranges->range[n];
        cl_int error = CL_SUCCESS;
        if (!r->written)
            continue;
        void *mapped = clEnqueueMapBuffer(queue, r->memory, CL_TRUE, CL_MAP_READ, 0,
                                          (size_t)(r->end - r->begin), 0, NULL, NULL, &error);
        fine = fine && error == CL_SUCCESS &&
               clEnqueueUnmapMemObject(queue, r->memory, mapped, 0, NULL, NULL) == CL_SUCCESS;
    }
    return fine;
}

void ranges_release(struct ranges *ranges)
{
    for (size_t n = 0; n < ranges->count; n++)
        if (ranges->range[n].memory != NULL)
            clReleaseMemObject(ranges->range[n].memory);
    ranges->count = 0;
}
