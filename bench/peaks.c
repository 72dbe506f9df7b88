#include "peaks.h"

#include <stdio.h>
#include <string.h>

#define LAUNCH_SECONDS 0.01
#define UNROLLED 16                        /* As in peaks.cl. */
#define LARGEST_BUFFER ((size_t)256 << 20) /* Beyond most last-level caches. */

extern const char bench_source_peaks[];

static bool fail_cl(struct message *why, const char *call, cl_int err)
{
    return message_set(why, "measuring peaks: %s failed with %d", call, err);
}

static bool build(struct peaks *peaks, struct message *why)
{
    const cl_context opencl = clattn_context_opencl(peaks->target->context);
    const bool sequential = peaks->target->info->type & CL_DEVICE_TYPE_CPU;
    const char *source = bench_source_peaks;
    char options[96];
    cl_int err;

    peaks->program = clCreateProgramWithSource(opencl, 1, &source, NULL, &err);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clCreateProgramWithSource", err);
    snprintf(options, sizeof options, "-DLANES=%u -DCHAINS=%u -DSEQUENTIAL=%d", peaks->lanes,
             peaks->chains, sequential);
    err = clBuildProgram(peaks->program, 1, &peaks->target->info->device, options, NULL, NULL);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clBuildProgram", err);
    return true;
}

static bool make_kernel(struct peaks *peaks, const char *name, cl_kernel *kernel,
                        struct message *why)
{
    cl_int err;

    *kernel = clCreateKernel(peaks->program, name, &err);
    return err == CL_SUCCESS || fail_cl(why, name, err);
}

/* The seconds of one launch. */
static bool launch(const struct peaks *peaks, cl_kernel kernel, size_t global, double *seconds,
                   struct message *why)
{
    cl_event event;
    cl_int err = clEnqueueNDRangeKernel(peaks->target->queue, kernel, 1, NULL, &global,
                                        &peaks->local, 0, NULL, &event);

    if (err != CL_SUCCESS)
        return fail_cl(why, "clEnqueueNDRangeKernel", err);
    err = clWaitForEvents(1, &event);
    *seconds = target_seconds(event, CL_PROFILING_COMMAND_START, event);
    clReleaseEvent(event);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clWaitForEvents", err);
    if (*seconds <= 0.0)
        return message_set(why, "the device's clock does not advance while a kernel runs");
    return true;
}

static bool median_of_three(const struct peaks *peaks, cl_kernel kernel, size_t global,
                            double *seconds, struct message *why)
{
    double t[3];

    for (int n = 0; n < 3; n++)
        if (!launch(peaks, kernel, global, &t[n], why))
            return false;
    const double low = t[0] < t[1] ? t[0] : t[1], high = t[0] < t[1] ? t[1] : t[0];
    *seconds = t[2] < low ? low : t[2] > high ? high : t[2];
    return true;
}

static bool set_fma_arguments(struct peaks *peaks, cl_uint rounds, struct message *why)
{
    const cl_float x = 0.999f, y = 0.001f;
    cl_int err = clSetKernelArg(peaks->fma, 0, sizeof peaks->to, &peaks->to);

    peaks->rounds = rounds;
    err |= clSetKernelArg(peaks->fma, 1, sizeof rounds, &rounds);
    err |= clSetKernelArg(peaks->fma, 2, sizeof x, &x);
    err |= clSetKernelArg(peaks->fma, 3, sizeof y, &y);
    return err == CL_SUCCESS || fail_cl(why, "clSetKernelArg", err);
}

/* Doubles the work until a launch lasts long enough. */
static bool calibrate(struct peaks *peaks, struct message *why)
{
    double seconds = 0.0;

    for (cl_uint rounds = 64; seconds < LAUNCH_SECONDS && rounds < 1u << 28; rounds *= 2)
        if (!set_fma_arguments(peaks, rounds, why) ||
            !launch(peaks, peaks->fma, peaks->global, &seconds, why))
            return false;
    return true;
}

bool peaks_fma(struct peaks *peaks, double *gflops, struct message *why)
{
    const double operations = 2.0 * peaks->lanes * peaks->chains * UNROLLED *
                              (double)peaks->rounds * (double)peaks->global;
    double seconds;

    if (!median_of_three(peaks, peaks->fma, peaks->global, &seconds, why))
        return false;
    *gflops = operations / seconds * 1e-9;
    return true;
}

static void release_program(struct peaks *peaks)
{
    if (peaks->fma != NULL)
        clReleaseKernel(peaks->fma);
    if (peaks->program != NULL)
        clReleaseProgram(peaks->program);
    peaks->fma = NULL;
    peaks->program = NULL;
}

static bool try_shape(struct peaks *peaks, unsigned lanes, unsigned chains, double *gflops,
                      struct message *why)
{
    peaks->lanes = lanes;
    peaks->chains = chains;
    return build(peaks, why) && make_kernel(peaks, "peak_fma", &peaks->fma, why) &&
           calibrate(peaks, why) && peaks_fma(peaks, gflops, why);
}

/* Leaves the fastest shape built. */
static bool choose_shape(struct peaks *peaks, struct message *why)
{
    static const unsigned cpu_chains[] = {8, 12, 16};
    static const unsigned gpu_shapes[][2] = {{1, 8}, {1, 16}, {4, 4}};
    const unsigned width = peaks->target->info->vector_width_float;
    const bool cpu = peaks->target->info->type & CL_DEVICE_TYPE_CPU;
    double best = 0.0, gflops;
    unsigned lanes = 0, chains = 0;

    for (int n = 0; n < 3; n++) {
        const unsigned l = !cpu ? gpu_shapes[n][0] : width >= 16 ? 16 : width >= 8 ? 8 : 4;
        const unsigned c = cpu ? cpu_chains[n] : gpu_shapes[n][1];
        if (!try_shape(peaks, l, c, &gflops, why))
            return false;
        if (gflops > best) {
            best = gflops;
            lanes = l;
            chains = c;
        }
        release_program(peaks);
    }
    return try_shape(peaks, lanes, chains, &gflops, why);
}

static bool make_buffers(struct peaks *peaks, struct message *why)
{
    const cl_context opencl = clattn_context_opencl(peaks->target->context);
    const clattn_device_info *info = peaks->target->info;
    cl_int err;

    peaks->buffer_bytes = LARGEST_BUFFER;
    while (peaks->buffer_bytes > info->max_allocation_bytes ||
           peaks->buffer_bytes > info->global_memory_bytes / 8)
        peaks->buffer_bytes /= 2;
    peaks->from = clCreateBuffer(opencl, CL_MEM_READ_WRITE, peaks->buffer_bytes, NULL, &err);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clCreateBuffer", err);
    peaks->to = clCreateBuffer(opencl, CL_MEM_READ_WRITE, peaks->buffer_bytes, NULL, &err);
    return err == CL_SUCCESS || fail_cl(why, "clCreateBuffer", err);
}

/* Arguments of a memory kernel, then one launch, so that what follows finds it compiled. */
static bool prepare(struct peaks *peaks, cl_kernel kernel, const cl_mem *buffers,
                    cl_uint buffer_count, struct message *why)
{
    cl_int err = CL_SUCCESS;
    double seconds;

    for (cl_uint n = 0; n < buffer_count; n++)
        err |= clSetKernelArg(kernel, n, sizeof buffers[n], &buffers[n]);
    err |= clSetKernelArg(kernel, buffer_count, sizeof peaks->count, &peaks->count);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clSetKernelArg", err);
    return launch(peaks, kernel, peaks->stream_global, &seconds, why);
}

/* All of a buffer by few sequential work-items on a CPU, by many neighbours elsewhere. */
static bool prepare_streams(struct peaks *peaks, struct message *why)
{
    const bool cpu = peaks->target->info->type & CL_DEVICE_TYPE_CPU;
    const size_t vectors = peaks->buffer_bytes / sizeof(cl_float) / peaks->lanes;
    cl_kernel fill;

    peaks->stream_global = cpu ? peaks->global : vectors / 16 / peaks->local * peaks->local;
    peaks->count = (cl_uint)(vectors / peaks->stream_global / 4 * 4);
    peaks->buffer_bytes = sizeof(cl_float) * peaks->lanes * peaks->count * peaks->stream_global;
    if (!make_kernel(peaks, "peak_read", &peaks->read, why) ||
        !make_kernel(peaks, "peak_copy", &peaks->copy, why) ||
        !make_kernel(peaks, "peak_fill", &fill, why))
        return false;
    const cl_mem buffers[] = {peaks->to, peaks->from};
    const bool ok = prepare(peaks, fill, &peaks->from, 1, why) &&
                    prepare(peaks, peaks->read, buffers, 2, why) &&
                    prepare(peaks, peaks->copy, buffers, 2, why);
    clReleaseKernel(fill);
    return ok;
}

bool peaks_open(struct peaks *peaks, const struct target *target, struct message *why)
{
    const clattn_device_info *info = target->info;
    const bool cpu = info->type & CL_DEVICE_TYPE_CPU;

    memset(peaks, 0, sizeof *peaks);
    peaks->target = target;
    peaks->local = cpu ? 1 : info->max_work_group_size < 256 ? info->max_work_group_size : 256;
    peaks->global = peaks->local * info->compute_units * 16;
    if (make_buffers(peaks, why) && choose_shape(peaks, why) && prepare_streams(peaks, why))
        return true;
    peaks_close(peaks);
    return false;
}

void peaks_close(struct peaks *peaks)
{
    if (peaks->copy != NULL)
        clReleaseKernel(peaks->copy);
    if (peaks->read != NULL)
        clReleaseKernel(peaks->read);
    release_program(peaks);
    if (peaks->to != NULL)
        clReleaseMemObject(peaks->to);
    if (peaks->from != NULL)
        clReleaseMemObject(peaks->from);
    memset(peaks, 0, sizeof *peaks);
}

bool peaks_read(struct peaks *peaks, double *gigabytes, struct message *why)
{
    double seconds;

    if (!median_of_three(peaks, peaks->read, peaks->stream_global, &seconds, why))
        return false;
    *gigabytes = (double)peaks->buffer_bytes / seconds * 1e-9;
    return true;
}

bool peaks_copy(struct peaks *peaks, double *gigabytes, struct message *why)
{
    double seconds;

    if (!median_of_three(peaks, peaks->copy, peaks->stream_global, &seconds, why))
        return false;
    *gigabytes = 2.0 * (double)peaks->buffer_bytes / seconds * 1e-9;
    return true;
}
