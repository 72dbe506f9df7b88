/* What the examples from 08 on share: failing early, and moving arrays to the device and back. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>

struct device {
    clattn_context *context;
    cl_context opencl;
    cl_command_queue queue; /* in-order: each call may use what the calls before it have written */
};

static inline void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

/* Errors come as a status for the program and as a sentence for a person. */
static inline void print_message(clattn_log_level level, const char *message, void *user_data)
{
    (void)user_data;
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn: %s\n", message);
}

static inline struct device open_device(void)
{
    const clattn_context_options options = {.struct_size = sizeof options, .log = print_message};
    struct device d;
    cl_int err;

    check(clattn_context_create_default(NULL, &options, &d.context) == CLATTN_SUCCESS, "context");
    d.opencl = clattn_context_opencl(d.context);
    d.queue = clCreateCommandQueue(d.opencl, clattn_context_device(d.context)->device, 0, &err);
    check(err == CL_SUCCESS, "queue");
    return d;
}

static inline void close_device(const struct device *d)
{
    clReleaseCommandQueue(d->queue);
    clattn_context_release(d->context);
}

/* A buffer of count floats, with the values of host unless that is NULL. */
static inline clattn_buffer make_buffer(const struct device *d, size_t count, const float *host)
{
    cl_int err;
    const clattn_buffer made = {
        clCreateBuffer(d->opencl, CL_MEM_READ_WRITE, count * sizeof(float), NULL, &err), 0};

    check(err == CL_SUCCESS, "buffer");
    if (host != NULL)
        check(clEnqueueWriteBuffer(d->queue, made.buffer, CL_TRUE, 0, count * sizeof(float), host,
                                   0, NULL, NULL) == CL_SUCCESS,
              "write");
    return made;
}

static inline void write_buffer(const struct device *d, clattn_buffer to, size_t count,
                                const float *host)
{
    check(clEnqueueWriteBuffer(d->queue, to.buffer, CL_TRUE, to.offset * sizeof(float),
                               count * sizeof(float), host, 0, NULL, NULL) == CL_SUCCESS,
          "write");
}

static inline void read_buffer(const struct device *d, clattn_buffer from, size_t count,
                               float *host)
{
    check(clEnqueueReadBuffer(d->queue, from.buffer, CL_TRUE, from.offset * sizeof(float),
                              count * sizeof(float), host, 0, NULL, NULL) == CL_SUCCESS,
          "read");
}

#endif
