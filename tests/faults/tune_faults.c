/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into a clattn-tune of the tests: an OpenCL driver that misbehaves for some programs.
 *
 * TUNE_FAULTS lists kinds of faults, separated by commas: the nth program that is ever built, in
 * whichever process, gets the nth kind, the others none. TUNE_FAULTS_SEEN names the file where the
 * programs' options are written, a line each, in that order. KIND@N: only from the nth time on that
 * the kernel is enqueued. TUNE_FAULTS_COMPILED: a file that gets the options whenever a program is
 * built from its source. TUNE_FAULTS_QUEUE: the process ends when a queue is made. */
#define _POSIX_C_SOURCE 200809L /* fileno */
#include "os/clock.h"
#include "os/lock.h"
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <io.h>
#endif

enum fault {
    NONE,
    HANG,    /* a kernel never ends */
    SEGV,    /* the driver crashes */
    EXIT,    /* the driver ends the process */
    WRONG,   /* results are wrong */
    NANS,    /* results are NaN */
    OUTSIDE, /* something beside the results is overwritten */
    ENDLESS, /* the compiler never ends */
    STICKY,  /* from then on every call fails */
    REFUSED  /* the compiler complains */
};

static const char *const names[] = {"none", "hang",    "segv",    "exit",   "wrong",
                                    "nan",  "outside", "endless", "sticky", "refused"};

enum { MOST = 1024 };

struct faulty {
    const void *object; /* a program or a kernel */
    enum fault fault;
    int from, enqueued;
};

static struct faulty programs[MOST], kernels[MOST];
static size_t num_programs, num_kernels;
static enum fault last;  /* of the kernel enqueued last, if it has come to that */
static cl_program fresh; /* made from source last */
static int lost;

/* ---- who gets which -------------------------------------------------------------------------- */

static ca_file file_of(FILE *stream)
{
#if defined(_WIN32)
    return (ca_file)_get_osfhandle(_fileno(stream));
#else
    return (ca_file)fileno(stream);
#endif
}

/* Returns which line of the file the options are, written there if they are new. */
static size_t ordinal(const char *options)
{
    const char *path = getenv("TUNE_FAULTS_SEEN");
    FILE *file = path ? fopen(path, "a+") : NULL;
    char line[4096];
    size_t n = 0;
    int known = 0;

    if (!file)
        return MOST;
    while (ca_lock_try(file_of(file)) == CA_LOCK_OTHERS)
        ca_nap(0.001); /* programs may be built in several processes at once */
    rewind(file);
    while (!known && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        known = strcmp(line, options) == 0;
        n += !known;
    }
    if (!known)
        fprintf(file, "%s\n", options);
    fclose(file);
    return n;
}

static void note(const char *variable, const char *options)
{
    const char *path = getenv(variable);
    FILE *file = path ? fopen(path, "a") : NULL;

    if (!file)
        return;
    fprintf(file, "%s\n", options);
    fclose(file);
}

static void choose(const char *options, struct faulty *faulty)
{
    const char *kinds = getenv("TUNE_FAULTS");
    size_t n = kinds && *kinds ? ordinal(options) : MOST;

    faulty->fault = NONE;
    faulty->from = faulty->enqueued = 0;
    for (; kinds && n > 0; n--) {
        kinds = strchr(kinds, ',');
        kinds += kinds != NULL;
    }
    for (size_t k = 0; kinds && k < sizeof names / sizeof *names; k++) {
        const size_t length = strlen(names[k]);
        if (strncmp(kinds, names[k], length) != 0 ||
            (kinds[length] && !strchr(",@", kinds[length])))
            continue;
        faulty->fault = (enum fault)k;
        faulty->from = kinds[length] == '@' ? atoi(kinds + length + 1) : 1;
    }
}

static struct faulty *entry(struct faulty *list, size_t *count, const void *object)
{
    size_t n = 0;

    while (n < *count && list[n].object != object)
        n++;
    if (n == *count && n + 1 < MOST)
        ++*count;
    list[n].object = object;
    return &list[n];
}

static void end(enum fault fault)
{
    volatile int *nowhere = NULL;

    if (fault == HANG || fault == ENDLESS)
        for (;;)
            ca_nap(60);
    if (fault == SEGV)
        *nowhere = 0; /* not raise(): the signal may be blocked */
    if (fault == EXIT) {
        fputs("out of luck\n", stdout);
        fflush(stdout);
        _Exit(3);
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* The names are the linker's: --wrap=f calls __wrap_f() for f() and f() for __real_f(). */
#define CALL(name, code, parameters, arguments) cl_int __real_##name parameters;
#define MAKE(type, name, code, parameters, arguments) type __real_##name parameters;
#include "tests/faults/calls.def"

cl_program __wrap_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                            const size_t *lengths, cl_int *error)
{
    return fresh = __real_clCreateProgramWithSource(context, count, strings, lengths, error);
}

cl_int __wrap_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                             const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                             void *user_data)
{
    struct faulty *faulty = entry(programs, &num_programs, program);
    char quickly[4096];

    choose(options, faulty);
    /* What a fault costs does not depend on the code, and a slow machine is no fault. */
    snprintf(quickly, sizeof quickly, "%s%s", options,
             getenv("TUNE_FAULTS") ? " -cl-opt-disable -Dalways_inline=" : "");
    if (program == fresh)
        note("TUNE_FAULTS_COMPILED", options);
    if (faulty->fault == ENDLESS)
        end(ENDLESS);
    if (faulty->fault == REFUSED)
        return CL_BUILD_PROGRAM_FAILURE;
    return lost ? CL_OUT_OF_RESOURCES
                : __real_clBuildProgram(program, num_devices, devices, quickly, notify, user_data);
}

cl_kernel __wrap_clCreateKernel(cl_program program, const char *name, cl_int *error)
{
    cl_kernel kernel = __real_clCreateKernel(program, name, error);
    const struct faulty *from = entry(programs, &num_programs, program);
    struct faulty *faulty = entry(kernels, &num_kernels, kernel);

    faulty->fault = from->fault;
    faulty->from = from->from;
    faulty->enqueued = 0;
    return kernel;
}

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint num_wait, const cl_event *wait,
                                     cl_event *event)
{
    struct faulty *faulty = entry(kernels, &num_kernels, kernel);

    last = ++faulty->enqueued >= faulty->from ? faulty->fault : NONE;
    end(last);
    lost |= last == STICKY;
    return lost ? CL_OUT_OF_RESOURCES
                : __real_clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local,
                                                num_wait, wait, event);
}

/* Reads are of whole blocks: results between guard bands. */
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t size, void *pointer, cl_uint num_wait,
                                  const cl_event *wait, cl_event *event)
{
    unsigned char *bytes = pointer;
    const cl_int error = lost ? CL_OUT_OF_RESOURCES
                              : __real_clEnqueueReadBuffer(queue, buffer, blocking, offset, size,
                                                           pointer, num_wait, wait, event);

    if (error == CL_SUCCESS && last == OUTSIDE)
        bytes[size - 1] ^= 1;
    for (size_t n = size / 4; error == CL_SUCCESS && n < size - size / 4; n++) {
        if (last == WRONG)
            bytes[n] ^= 0x20;
        if (last == NANS)
            bytes[n] = 0xff;
    }
    return error;
}

cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                   size_t offset, size_t size, const void *pointer,
                                   cl_uint num_wait, const cl_event *wait, cl_event *event)
{
    return lost ? CL_OUT_OF_RESOURCES
                : __real_clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, pointer,
                                              num_wait, wait, event);
}

cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *error)
{
    if (!lost)
        return __real_clCreateBuffer(context, flags, size, host, error);
    *error = CL_OUT_OF_RESOURCES;
    return NULL;
}

/* Only the worker makes a queue. */
cl_command_queue __wrap_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *error)
{
    if (getenv("TUNE_FAULTS_QUEUE"))
        end(EXIT);
    return __real_clCreateCommandQueue(context, device, properties, error);
}
