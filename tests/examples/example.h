/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the examples from 03 on share: failing early with a sentence, and moving arrays
 * to the device and back. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
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

/* OpenCL's own calls have a number only. */
static inline void check_opencl(cl_int err, const char *call)
{
    if (err != CL_SUCCESS) {
        fprintf(stderr, "%s failed with OpenCL's error %d\n", call, (int)err);
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

static inline clattn_context *open_context(void)
{
    const clattn_context_options options = {.struct_size = sizeof options, .log = print_message};
    clattn_context *context;

    check(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS, "context");
    return context;
}

static inline clattn_problem problem_of(const char *text)
{
    clattn_problem problem;
    char reason[256];

    if (clattn_problem_parse(text, &problem, reason, sizeof reason) != CLATTN_SUCCESS) {
        fprintf(stderr, "'%s': %s\n", text, reason);
        exit(1);
    }
    return problem;
}

static inline struct device open_device(void)
{
    struct device d = {.context = open_context()};
    cl_int err;

    d.opencl = clattn_context_opencl(d.context);
    d.queue = clCreateCommandQueue(d.opencl, clattn_context_device(d.context)->device, 0, &err);
    check_opencl(err, "clCreateCommandQueue");
    return d;
}

static inline clattn_plan *plan_of(const struct device *d, const char *text)
{
    const clattn_problem problem = problem_of(text);
    clattn_plan *plan;

    check(clattn_plan_create(d->context, &problem, NULL, &plan) == CLATTN_SUCCESS, text);
    return plan;
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
        .buffer = clCreateBuffer(d->opencl, CL_MEM_READ_WRITE, count * sizeof(float), NULL, &err)};

    check_opencl(err, "clCreateBuffer");
    if (host != NULL)
        check_opencl(clEnqueueWriteBuffer(d->queue, made.buffer, CL_TRUE, 0, count * sizeof(float),
                                          host, 0, NULL, NULL),
                     "clEnqueueWriteBuffer");
    return made;
}

static inline void write_buffer(const struct device *d, clattn_buffer to, size_t count,
                                const float *host)
{
    check_opencl(clEnqueueWriteBuffer(d->queue, to.buffer, CL_TRUE, to.offset * sizeof(float),
                                      count * sizeof(float), host, 0, NULL, NULL),
                 "clEnqueueWriteBuffer");
}

static inline void read_buffer(const struct device *d, clattn_buffer from, size_t count,
                               float *host)
{
    check_opencl(clEnqueueReadBuffer(d->queue, from.buffer, CL_TRUE, from.offset * sizeof(float),
                                     count * sizeof(float), host, 0, NULL, NULL),
                 "clEnqueueReadBuffer");
}

#endif
