/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/peaks.h"

#include <string.h>

#define LARGEST_BUFFER ((size_t)256 << 20)      /* Beyond most last-level caches. */
#define LARGEST_GPU_BUFFER ((size_t)1024 << 20) /* Some have 256 MiB of cache. */
#define SMALLEST_BUFFER ((size_t)32 << 20)
#define LONGEST_PASS 0.2   /* Seconds over a buffer. */
#define PASSES 3           /* Over the forms, against chance. */
#define FIRST_LAUNCH 0.001 /* Seconds of a form's first launch, by its roughly known rate. */
#define LAUNCHES 3         /* Launches in a sample of a stream. */

/* Opens what can be opened; fails if nothing can. */
static bool open_forms(struct peaks *peaks, struct message *why)
{
    bool any = false;

    peaks->num_forms = peak_form_list(peaks->forms, peaks->target->info);
    for (size_t n = 0; n < peaks->num_forms; n++) {
        struct peak_form *form = &peaks->forms[n];
        if (peak_form_open(form, peaks->target, peaks->to, why))
            any = any || form->kind == PEAK_F32;
        else
            form->best = 0.0;
    }
    return any;
}

static bool choose_forms(struct peaks *peaks, size_t most, struct message *why)
{
    const size_t passes = most > 0 && most < PASSES ? most : PASSES;

    for (size_t n = 0; n < passes * peaks->num_forms; n++) {
        struct peak_form *form = &peaks->forms[n % peaks->num_forms];
        const struct peak_form **best = &peaks->fastest[form->kind];
        double rate;
        if (form->best <= 0.0)
            continue;
        if (!peak_form_sample(form, peaks->target, FIRST_LAUNCH, &rate, why))
            return false;
        form->best = rate > form->best ? rate : form->best;
        if (*best == NULL || form->best > (*best)->best)
            *best = form;
    }
    for (enum peak_kind kind = 0; kind < NUM_PEAK_KINDS; kind++)
        if (peaks->fastest[kind] != NULL)
            peak_form_describe(peaks->fastest[kind], peaks->form[kind]);
    return true;
}

bool peaks_fma(struct peaks *peaks, enum peak_kind kind, double launch_seconds, double *gflops,
               struct message *why)
{
    if (!peak_form_sample(peaks->fastest[kind], peaks->target, launch_seconds, gflops, why))
        return false;
    *gflops *= 1e-9;
    return true;
}

static bool make_buffers(struct peaks *peaks, struct message *why)
{
    const cl_context opencl = clattn_context_opencl(peaks->target->context);
    const clattn_device_info *info = peaks->target->info;
    const bool gpu = (info->type & CL_DEVICE_TYPE_GPU) != 0;
    cl_int err;

    peaks->buffer_bytes = gpu ? LARGEST_GPU_BUFFER : LARGEST_BUFFER;
    while (peaks->buffer_bytes > info->max_allocation_bytes ||
           peaks->buffer_bytes > info->global_memory_bytes / 8)
        peaks->buffer_bytes /= 2;
    peaks->from = clCreateBuffer(opencl, CL_MEM_READ_WRITE, peaks->buffer_bytes, NULL, &err);
    if (err != CL_SUCCESS)
        return peak_fail(why, "clCreateBuffer", err);
    peaks->to = clCreateBuffer(opencl, CL_MEM_READ_WRITE, peaks->buffer_bytes, NULL, &err);
    return err == CL_SUCCESS || peak_fail(why, "clCreateBuffer", err);
}

/* Bytes per second of so many launches. */
static bool time_stream(const struct peaks *peaks, const struct peak_stream *stream,
                        size_t launches, double *rate, struct message *why)
{
    double seconds;

    if (!peak_time_launches(peaks->target, stream->kernel, stream->global, stream->local, launches,
                            &seconds, why))
        return false;
    *rate = stream->bytes / seconds;
    return true;
}

/* A kernel of the form's program over all of the buffer: by few work-items one after the other, or
 * by many neighbours. The last of `buffers` is followed by the count of vectors. */
static bool open_stream(const struct peaks *peaks, const struct peak_form *form, const char *name,
                        const cl_mem *buffers, cl_uint num_buffers, struct peak_stream *stream,
                        struct message *why)
{
    const size_t vector = sizeof(cl_float) * form->lanes;
    const size_t vectors = peaks->buffer_bytes / vector;
    cl_int err;

    stream->local = form->local;
    stream->global = form->alone ? form->global : vectors / 16 / form->local * form->local;
    const cl_uint count = (cl_uint)(vectors / stream->global / 4 * 4);
    stream->bytes = (double)vector * count * (double)stream->global;
    stream->kernel = clCreateKernel(form->program, name, &err);
    if (err != CL_SUCCESS)
        return peak_fail(why, "clCreateKernel", err);
    for (cl_uint n = 0; n < num_buffers; n++)
        err |= clSetKernelArg(stream->kernel, n, sizeof buffers[n], &buffers[n]);
    err |= clSetKernelArg(stream->kernel, num_buffers, sizeof count, &count);
    return err == CL_SUCCESS || peak_fail(why, "clSetKernelArg", err);
}

static void close_stream(struct peak_stream *stream)
{
    if (stream->kernel != NULL)
        clReleaseKernel(stream->kernel);
    stream->kernel = NULL;
}

/* Times a stream after a first launch, which compiles what was left to it. */
static bool try_stream(const struct peaks *peaks, struct peak_stream *stream, struct message *why)
{
    double rate;

    return time_stream(peaks, stream, 1, &rate, why) &&
           time_stream(peaks, stream, LAUNCHES, &stream->best, why);
}

/* Returns whether a form before this one goes through memory in the same way. */
static bool is_repeated(const struct peaks *peaks, const struct peak_form *form)
{
    for (const struct peak_form *f = peaks->forms; f < form; f++)
        if (f->kind == PEAK_F32 && f->best > 0.0 && f->lanes == form->lanes &&
            f->alone == form->alone)
            return true;
    return false;
}

static bool choose_stream(const struct peaks *peaks, const char *name, const cl_mem *buffers,
                          cl_uint num_buffers, struct peak_stream *best, struct message *why)
{
    for (size_t n = 0; n < peaks->num_forms; n++) {
        const struct peak_form *form = &peaks->forms[n];
        struct peak_stream stream = {.kernel = NULL};
        if (form->kind != PEAK_F32 || form->best <= 0.0 || is_repeated(peaks, form))
            continue;
        if (!open_stream(peaks, form, name, buffers, num_buffers, &stream, why) ||
            !try_stream(peaks, &stream, why)) {
            close_stream(&stream);
            return false;
        }
        struct peak_stream slower = stream;
        if (stream.best > best->best) {
            slower = *best;
            *best = stream;
        }
        close_stream(&slower);
    }
    return true;
}

static bool choose_streams(struct peaks *peaks, struct message *why)
{
    const cl_mem buffers[] = {peaks->to, peaks->from};
    struct peak_stream fill = {.kernel = NULL};
    const bool filled =
        open_stream(peaks, peaks->fastest[PEAK_F32], "peak_fill", &peaks->from, 1, &fill, why) &&
        time_stream(peaks, &fill, 1, &fill.best, why);

    close_stream(&fill);
    while (filled && peaks->buffer_bytes > SMALLEST_BUFFER &&
           (double)peaks->buffer_bytes > LONGEST_PASS * fill.best)
        peaks->buffer_bytes /= 2; /* llvmpipe: what no memory limits needs none to be measured */
    return filled && choose_stream(peaks, "peak_read", buffers, 2, &peaks->read, why) &&
           choose_stream(peaks, "peak_copy", buffers, 2, &peaks->copy, why);
}

bool peaks_open(struct peaks *peaks, const struct target *target, size_t most, struct message *why)
{
    memset(peaks, 0, sizeof *peaks);
    peaks->target = target;
    if (make_buffers(peaks, why) && open_forms(peaks, why) && choose_forms(peaks, most, why) &&
        choose_streams(peaks, why))
        return true;
    peaks_close(peaks);
    return false;
}

void peaks_close(struct peaks *peaks)
{
    close_stream(&peaks->copy);
    close_stream(&peaks->read);
    for (size_t n = 0; n < peaks->num_forms; n++)
        peak_form_close(&peaks->forms[n]);
    if (peaks->to != NULL)
        clReleaseMemObject(peaks->to);
    if (peaks->from != NULL)
        clReleaseMemObject(peaks->from);
    memset(peaks, 0, sizeof *peaks);
}

bool peaks_read(struct peaks *peaks, double *gigabytes, struct message *why)
{
    if (!time_stream(peaks, &peaks->read, LAUNCHES, gigabytes, why))
        return false;
    *gigabytes *= 1e-9;
    return true;
}

bool peaks_copy(struct peaks *peaks, double *gigabytes, struct message *why)
{
    if (!time_stream(peaks, &peaks->copy, LAUNCHES, gigabytes, why))
        return false;
    *gigabytes *= 2e-9;
    return true;
}

double peaks_read_bytes(const struct peaks *peaks)
{
    return peaks->read.bytes;
}
