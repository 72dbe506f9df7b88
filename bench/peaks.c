#include "peaks.h"
#include "timing.h"

#include <stdio.h>
#include <string.h>

#define SAMPLE_SECONDS 0.03
#define SHORTEST_LAUNCH 0.001 /* Launching costs some 25 us on PoCL. */
#define LONGEST_LAUNCH 0.1
#define UNROLLED 16                        /* As in peaks.cl. */
#define LARGEST_BUFFER ((size_t)256 << 20) /* Beyond most last-level caches. */
#define PASSES 3                           /* Over the forms, against chance. */

extern const char bench_source_peaks[];

static bool fail_cl(struct message *why, const char *call, cl_int err)
{
    return message_set(why, "measuring peaks: %s failed with %d", call, err);
}

static bool is_cpu(const struct peaks *peaks)
{
    return (peaks->target->info->type & CL_DEVICE_TYPE_CPU) != 0;
}

static bool make_kernel(cl_program program, const char *name, cl_kernel *kernel,
                        struct message *why)
{
    cl_int err;

    *kernel = clCreateKernel(program, name, &err);
    return err == CL_SUCCESS || fail_cl(why, name, err);
}

static bool build(struct peaks *peaks, struct peak_form *form, struct message *why)
{
    const cl_context opencl = clattn_context_opencl(peaks->target->context);
    const char *source = bench_source_peaks;
    char options[96];
    cl_int err;

    form->program = clCreateProgramWithSource(opencl, 1, &source, NULL, &err);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clCreateProgramWithSource", err);
    snprintf(options, sizeof options, "-DLANES=%u -DCHAINS=%u -DMULTIPLY_ADD=%s -DSEQUENTIAL=%d",
             form->lanes, form->chains, form->operation, is_cpu(peaks));
    err = clBuildProgram(form->program, 1, &peaks->target->info->device, options, NULL, NULL);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clBuildProgram", err);
    return make_kernel(form->program, "peak_fma", &form->kernel, why);
}

/* One kernel to be launched again and again. */
struct launch {
    const struct peaks *peaks;
    cl_kernel kernel;
    size_t global;
};

static bool enqueue(void *work, cl_event *end, struct message *why)
{
    const struct launch *launch = work;
    const cl_int err = clEnqueueNDRangeKernel(launch->peaks->target->queue, launch->kernel, 1, NULL,
                                              &launch->global, &launch->peaks->local, 0, NULL, end);

    return err == CL_SUCCESS || fail_cl(why, "clEnqueueNDRangeKernel", err);
}

/* Operations per second of `launches` launches of `rounds` rounds each. */
static bool time_form(const struct peaks *peaks, const struct peak_form *form, cl_uint rounds,
                      size_t launches, double *rate, struct message *why)
{
    const double operations =
        2.0 * form->lanes * form->chains * UNROLLED * (double)rounds * (double)peaks->fma_global;
    struct launch launch = {peaks, form->kernel, peaks->fma_global};
    const cl_float x = 0.999f, y = 0.001f;
    double seconds;

    cl_int err = clSetKernelArg(form->kernel, 0, sizeof peaks->to, &peaks->to);
    err |= clSetKernelArg(form->kernel, 1, sizeof rounds, &rounds);
    err |= clSetKernelArg(form->kernel, 2, sizeof x, &x);
    err |= clSetKernelArg(form->kernel, 3, sizeof y, &y);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clSetKernelArg", err);
    if (!timing_median(peaks->target, enqueue, &launch, launches, &seconds, why))
        return false;
    *rate = operations / seconds;
    return true;
}

/* One sample of a form whose rate is known roughly, and the rate if it is better. */
static bool sample_form(const struct peaks *peaks, struct peak_form *form, double launch_seconds,
                        double *rate, struct message *why)
{
    const double wanted = launch_seconds < SHORTEST_LAUNCH  ? SHORTEST_LAUNCH
                          : launch_seconds > LONGEST_LAUNCH ? LONGEST_LAUNCH
                                                            : launch_seconds;
    const double round =
        2.0 * form->lanes * form->chains * UNROLLED * (double)peaks->fma_global / form->best;
    const cl_uint rounds = (cl_uint)(wanted / round) + 1;
    const size_t launches = wanted * 3.0 > SAMPLE_SECONDS ? 3 : (size_t)(SAMPLE_SECONDS / wanted);

    if (!time_form(peaks, form, rounds, launches, rate, why))
        return false;
    form->best = *rate > form->best ? *rate : form->best;
    return true;
}

/* A first rate: from launches twice as long each time until one is long enough to be timed. */
static bool calibrate(const struct peaks *peaks, struct peak_form *form, struct message *why)
{
    double seconds = 0.0, rate = 0.0;

    for (cl_uint rounds = 64; seconds < SHORTEST_LAUNCH && rounds < 1u << 28; rounds *= 2) {
        if (!time_form(peaks, form, rounds, 1, &rate, why))
            return false;
        seconds = 2.0 * form->lanes * form->chains * UNROLLED * (double)rounds *
                  (double)peaks->fma_global / rate;
        form->best = rate;
    }
    return true;
}

static void list_forms(struct peaks *peaks)
{
    static const struct peak_form gpu[PEAK_MOST_FORMS] = {
        {.lanes = 1, .chains = 8, .operation = "fma"},
        {.lanes = 1, .chains = 16, .operation = "fma"},
        {.lanes = 4, .chains = 4, .operation = "fma"},
        {.lanes = 4, .chains = 4, .operation = "mad"},
    };
    static const struct peak_form cpu[PEAK_MOST_FORMS] = {
        {.chains = 8, .operation = "fma"},
        {.chains = 12, .operation = "fma"},
        {.chains = 16, .operation = "fma"},
        {.chains = 12, .operation = "mad"},
    };
    const unsigned width = peaks->target->info->vector_width_float;

    memcpy(peaks->forms, is_cpu(peaks) ? cpu : gpu, sizeof peaks->forms);
    for (int n = 0; is_cpu(peaks) && n < PEAK_MOST_FORMS; n++)
        peaks->forms[n].lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4;
}

static bool choose_form(struct peaks *peaks, struct message *why)
{
    double rate = 0.0;

    list_forms(peaks);
    for (int n = 0; n < PEAK_MOST_FORMS; n++)
        if (!build(peaks, &peaks->forms[n], why) || !calibrate(peaks, &peaks->forms[n], why))
            return false;
    for (int n = 0; n < PASSES * PEAK_MOST_FORMS; n++) {
        struct peak_form *form = &peaks->forms[n % PEAK_MOST_FORMS];
        if (!sample_form(peaks, form, SHORTEST_LAUNCH, &rate, why))
            return false;
        if (peaks->form == NULL || form->best > peaks->form->best)
            peaks->form = form;
    }
    return true;
}

bool peaks_fma(struct peaks *peaks, double launch_seconds, double *gflops, struct message *why)
{
    struct peak_form form = *peaks->form; /* its best is from the choice, whatever comes now */

    if (!sample_form(peaks, &form, launch_seconds, gflops, why))
        return false;
    *gflops *= 1e-9;
    return true;
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

/* Arguments of a memory kernel, then a first launch, which compiles what was left to it. */
static bool prepare(struct peaks *peaks, cl_kernel kernel, const cl_mem *buffers,
                    cl_uint buffer_count, struct message *why)
{
    struct launch launch = {peaks, kernel, peaks->stream_global};
    cl_int err = CL_SUCCESS;
    double seconds;

    for (cl_uint n = 0; n < buffer_count; n++)
        err |= clSetKernelArg(kernel, n, sizeof buffers[n], &buffers[n]);
    err |= clSetKernelArg(kernel, buffer_count, sizeof peaks->count, &peaks->count);
    if (err != CL_SUCCESS)
        return fail_cl(why, "clSetKernelArg", err);
    return timing_median(peaks->target, enqueue, &launch, 1, &seconds, why);
}

/* All of a buffer by few sequential work-items on a CPU, by many neighbours elsewhere. */
static bool prepare_streams(struct peaks *peaks, struct message *why)
{
    const cl_program program = peaks->form->program;
    const size_t vectors = peaks->buffer_bytes / sizeof(cl_float) / peaks->form->lanes;
    const cl_mem buffers[] = {peaks->to, peaks->from};
    cl_kernel fill;

    peaks->stream_global =
        is_cpu(peaks) ? peaks->fma_global : vectors / 16 / peaks->local * peaks->local;
    peaks->count = (cl_uint)(vectors / peaks->stream_global / 4 * 4);
    peaks->buffer_bytes =
        sizeof(cl_float) * peaks->form->lanes * peaks->count * peaks->stream_global;
    if (!make_kernel(program, "peak_read", &peaks->read, why) ||
        !make_kernel(program, "peak_copy", &peaks->copy, why) ||
        !make_kernel(program, "peak_fill", &fill, why))
        return false;
    const bool ok = prepare(peaks, fill, &peaks->from, 1, why) &&
                    prepare(peaks, peaks->read, buffers, 2, why) &&
                    prepare(peaks, peaks->copy, buffers, 2, why);
    clReleaseKernel(fill);
    return ok;
}

bool peaks_open(struct peaks *peaks, const struct target *target, struct message *why)
{
    const size_t largest = target->info->max_work_group_size;

    memset(peaks, 0, sizeof *peaks);
    peaks->target = target;
    peaks->local = is_cpu(peaks) ? 1 : largest < 256 ? largest : 256;
    peaks->fma_global = peaks->local * target->info->compute_units * 16;
    if (make_buffers(peaks, why) && choose_form(peaks, why) && prepare_streams(peaks, why))
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
    for (int n = 0; n < PEAK_MOST_FORMS; n++) {
        if (peaks->forms[n].kernel != NULL)
            clReleaseKernel(peaks->forms[n].kernel);
        if (peaks->forms[n].program != NULL)
            clReleaseProgram(peaks->forms[n].program);
    }
    if (peaks->to != NULL)
        clReleaseMemObject(peaks->to);
    if (peaks->from != NULL)
        clReleaseMemObject(peaks->from);
    memset(peaks, 0, sizeof *peaks);
}

static bool stream(const struct peaks *peaks, cl_kernel kernel, double bytes, double *gigabytes,
                   struct message *why)
{
    struct launch launch = {peaks, kernel, peaks->stream_global};
    double seconds;

    if (!timing_median(peaks->target, enqueue, &launch, 3, &seconds, why))
        return false;
    *gigabytes = bytes / seconds * 1e-9;
    return true;
}

bool peaks_read(struct peaks *peaks, double *gigabytes, struct message *why)
{
    return stream(peaks, peaks->read, (double)peaks->buffer_bytes, gigabytes, why);
}

bool peaks_copy(struct peaks *peaks, double *gigabytes, struct message *why)
{
    return stream(peaks, peaks->copy, 2.0 * (double)peaks->buffer_bytes, gigabytes, why);
}
