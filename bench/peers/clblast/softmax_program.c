/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/clblast/softmax_program.h"

#include <stdio.h>
#include <string.h>

extern const char peer_source_softmax[];

enum { LANES_ON_CPU = 16, MOST_WIDTH = 256 };

/* Work-items that share a row: one on a CPU, elsewhere as many as the row keeps busy. */
static size_t width_of(const clattn_device_info *info, size_t keys)
{
    size_t width = 1;

    while ((info->type & CL_DEVICE_TYPE_CPU) == 0 && width < MOST_WIDTH && width * 2 < keys &&
           width * 2 <= info->max_work_group_size)
        width *= 2;
    return width;
}

/* Floats of a row that local memory has room for. */
static size_t cached_of(const clattn_device_info *info, size_t keys)
{
    if (!info->local_memory_dedicated ||
        (keys + MOST_WIDTH) * sizeof(cl_float) > info->local_memory_bytes * 3 / 4)
        return 0;
    return (keys + LANES_ON_CPU - 1) / LANES_ON_CPU * LANES_ON_CPU;
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
                          const clattn_problem *p, const struct steps *steps, struct message *why)
{
    const clattn_device_info *info = target->info;
    const size_t keys = steps->most_keys, cached = cached_of(info, keys);
    char options[256];

    softmax->width = width_of(info, keys);
    softmax->local_bytes = (softmax->width + cached) * sizeof(cl_float);
    snprintf(options, sizeof options,
             "-cl-mad-enable -DHALF=%d -DSEQ_Q=%zu -DSEQ_KV=%zu -DLEFT=%lldL -DRIGHT=%lldL "
             "-DDIAGONAL=%lldL -DLANES=%d -DCACHED=%zu",
             p->dtype == CLATTN_F16, p->seq_q, p->seq_kv, (long long)problem_left(p),
             (long long)problem_right(p), (long long)problem_diagonal(p),
             (info->type & CL_DEVICE_TYPE_CPU) != 0 ? LANES_ON_CPU : 1, cached);
    return build(softmax, target, options, why);
}

bool softmax_program_enqueue(const struct softmax_program *softmax, cl_command_queue queue,
                             cl_mem scores, const struct step *step, struct message *why)
{
    const cl_uint numbers[] = {(cl_uint)step->rows, (cl_uint)step->keys, (cl_uint)step->stride,
                               (cl_uint)step->row, (cl_uint)step->key};
    const size_t local[3] = {softmax->width, 1, 1};
    const size_t global[3] = {softmax->width, step->rows, step->entries};
    cl_uint next = 0;
    cl_int err = clSetKernelArg(softmax->kernel, next++, sizeof scores, &scores);

    for (size_t n = 0; err == CL_SUCCESS && n < sizeof numbers / sizeof *numbers; n++)
        err = clSetKernelArg(softmax->kernel, next++, sizeof numbers[n], &numbers[n]);
    if (err == CL_SUCCESS)
        err = clSetKernelArg(softmax->kernel, next, softmax->local_bytes, NULL);
    if (err == CL_SUCCESS)
        err = clEnqueueNDRangeKernel(queue, softmax->kernel, 3, NULL, global, local, 0, NULL, NULL);
    return err == CL_SUCCESS || message_set(why, "the softmax kernel failed with %d", err);
}

void softmax_program_close(struct softmax_program *softmax)
{
    if (softmax->kernel != NULL)
        clReleaseKernel(softmax->kernel);
    memset(softmax, 0, sizeof *softmax);
}
