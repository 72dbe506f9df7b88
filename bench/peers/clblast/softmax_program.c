/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/clblast/softmax_program.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

extern const char peer_source_softmax[];

enum { LANES_ON_CPU = 16, MOST_WIDTH = 256 };

/* Compiler options, cut if they do not fit: the build says so then. */
struct options {
    char text[1024];
    size_t length;
};

static void define(struct options *options, const char *format, ...)
{
    va_list arguments;
    const size_t room = sizeof options->text - options->length;

    va_start(arguments, format);
    const int length = vsnprintf(options->text + options->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        options->length += (size_t)length < room ? (size_t)length : room - 1;
}

static void define_problem(struct options *options, const struct problem_data *data)
{
    const clattn_problem *p = &data->problem;

    define(options, " -DHALF=%d -DHEADS=%zu -DKV_HEADS=%zu -DSEQ_Q=%zu -DSEQ_KV=%zu",
           p->dtype == CLATTN_F16, p->heads, p->kv_heads, p->seq_q, p->seq_kv);
    define(options, " -DLEFT=%lldL -DRIGHT=%lldL", (long long)problem_data_left(p),
           (long long)problem_data_right(p));
    if (p->diagonal == CLATTN_BOTTOM_RIGHT)
        define(options, " -DBOTTOM_RIGHT");
    else
        define(options, " -DDIAGONAL=%lldL", (long long)problem_data_diagonal(data, 0));
    if (p->softcap > 0.0f)
        define(options, " -DSOFTCAP=%af", (double)p->softcap);
    if (data->addend != NULL)
        define(options, " -DADDEND_B=%zu -DADDEND_H=%zu -DADDEND_I=%zu", data->addend_stride[0],
               data->addend_stride[1], data->addend_stride[2]);
    define(options, "%s%s%s%s", p->alibi ? " -DALIBI" : "", p->sinks ? " -DSINKS" : "",
           p->q_lengths ? " -DQ_LENGTHS" : "", p->kv_lengths ? " -DKV_LENGTHS" : "");
}

/* How a row is shared out: to one work-item on a CPU, else to as many as it keeps busy. */
static void define_shape(struct softmax_program *softmax, struct options *options,
                         const clattn_device_info *info, size_t keys)
{
    const bool cpu = (info->type & CL_DEVICE_TYPE_CPU) != 0;
    size_t cached = 0;

    softmax->width = 1;
    while (!cpu && softmax->width < MOST_WIDTH && softmax->width * 2 < keys &&
           softmax->width * 2 <= info->max_work_group_size)
        softmax->width *= 2;
    if (info->local_memory_dedicated && (keys + MOST_WIDTH) * 4 <= info->local_memory_bytes * 3 / 4)
        cached = (keys + LANES_ON_CPU - 1) / LANES_ON_CPU * LANES_ON_CPU;
    softmax->local_bytes = (softmax->width + cached) * sizeof(cl_float);
    define(options, " -DLANES=%d -DCACHED=%zu", cpu ? LANES_ON_CPU : 1, cached);
}

bool device_copy(const struct target *target, const void *data, size_t bytes, size_t room,
                 cl_mem *buffer, struct message *why)
{
    cl_int err;

    *buffer = clCreateBuffer(clattn_context_opencl(target->context), CL_MEM_READ_WRITE,
                             bytes + room, NULL, &err);
    if (err == CL_SUCCESS && data != NULL)
        err = clEnqueueWriteBuffer(target->queue, *buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    return err == CL_SUCCESS ||
           message_set(why, "a buffer of %zu bytes failed with %d", bytes, err);
}

static bool copy_data(struct softmax_program *softmax, const struct target *target,
                      const struct problem_data *data, struct message *why)
{
    const clattn_problem *p = &data->problem;
    const struct {
        const void *data;
        size_t count, room;
    } from[NUM_SOFTMAX_BUFFERS] = {
        {data->addend, data->addend_count, LANES_ON_CPU}, /* Read, and not used, after the end. */
        {data->slopes, p->heads, 0},
        {data->sinks, p->heads, 0},
        {data->q_lengths, p->batch, 0},
        {data->kv_lengths, p->batch, 0},
    };
    bool ok = true;

    for (size_t n = 0; ok && n < NUM_SOFTMAX_BUFFERS; n++)
        ok = from[n].data == NULL ||
             device_copy(target, from[n].data, from[n].count * sizeof(cl_float),
                         from[n].room * sizeof(cl_float), &softmax->buffer[n], why);
    return ok;
}

static bool build(struct softmax_program *softmax, const struct target *target, const char *options,
                  struct message *why)
{
    const char *source = peer_source_softmax;
    cl_int err;
    cl_program program =
        clCreateProgramWithSource(clattn_context_opencl(target->context), 1, &source, NULL, &err);

    if (err != CL_SUCCESS)
        return message_set(why, "clCreateProgramWithSource failed with %d", err);
    err = clBuildProgram(program, 1, &target->info->device, options, NULL, NULL);
    if (err == CL_SUCCESS)
        softmax->kernel = clCreateKernel(program, "softmax", &err);
    clReleaseProgram(program); /* The kernel holds its own reference. */
    return err == CL_SUCCESS ||
           message_set(why, "the softmax kernel does not build: %d with '%s'", err, options);
}

bool softmax_program_open(struct softmax_program *softmax, const struct target *target,
                          const struct problem_data *data, const struct steps *steps,
                          struct message *why)
{
    struct options options = {"-cl-mad-enable", strlen("-cl-mad-enable")};

    memset(softmax, 0, sizeof *softmax);
    define_problem(&options, data);
    define_shape(softmax, &options, target->info, steps->most_keys);
    return copy_data(softmax, target, data, why) && build(softmax, target, options.text, why);
}

bool softmax_program_enqueue(const struct softmax_program *softmax, cl_command_queue queue,
                             cl_mem scores, const struct step *step, struct message *why)
{
    const cl_uint numbers[] = {
        (cl_uint)step->rows,       (cl_uint)step->keys, (cl_uint)step->stride, (cl_uint)step->slice,
        (cl_uint)step->same_slice, (cl_uint)step->row,  (cl_uint)step->key};
    const size_t local[3] = {softmax->width, 1, 1};
    const size_t global[3] = {softmax->width, step->rows, step->entries};
    cl_uint next = 0;
    cl_int err = clSetKernelArg(softmax->kernel, next++, sizeof scores, &scores);

    for (size_t n = 0; err == CL_SUCCESS && n < sizeof numbers / sizeof *numbers; n++)
        err = clSetKernelArg(softmax->kernel, next++, sizeof numbers[n], &numbers[n]);
    for (size_t n = 0; err == CL_SUCCESS && n < NUM_SOFTMAX_BUFFERS; n++)
        err = clSetKernelArg(softmax->kernel, next++, sizeof(cl_mem), &softmax->buffer[n]);
    if (err == CL_SUCCESS)
        err = clSetKernelArg(softmax->kernel, next, softmax->local_bytes, NULL);
    if (err == CL_SUCCESS)
        err = clEnqueueNDRangeKernel(queue, softmax->kernel, 3, NULL, global, local, 0, NULL, NULL);
    return err == CL_SUCCESS || message_set(why, "the softmax kernel failed with %d", err);
}

void softmax_program_close(struct softmax_program *softmax)
{
    for (size_t n = 0; n < NUM_SOFTMAX_BUFFERS; n++)
        if (softmax->buffer[n] != NULL)
            clReleaseMemObject(softmax->buffer[n]);
    if (softmax->kernel != NULL)
        clReleaseKernel(softmax->kernel);
    memset(softmax, 0, sizeof *softmax);
}
