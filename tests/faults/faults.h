/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the OpenCL objects and the allocations of this program and makes calls fail on demand.
 *
 * The linker's --wrap replaces malloc() and the OpenCL calls of calls.def by the functions of
 * faults_*.c. This holds wherever the library and the tests make these calls, not inside
 * OpenCL's implementation. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <CL/cl.h>
#include <stddef.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_MEMORY, /* malloc, calloc, realloc and fdopendir, which allocates, give NULL */
    FAULT_OPENCL, /* an OpenCL call gives an error, without having done anything */
    FAULT_STICKY, /* the same, and so does every later one: a context that is lost */
    FAULT_LIE,    /* a clEnqueueReadBuffer() that blocks gives other bytes than are there */
    FAULT_LIES,   /* every such call does, from the first on */
    FAULT_DELAY   /* none fails, but every clSetKernelArg() lets other threads go first */
};

/* From now on call number n (from 0) of the kind fails, on any thread. An OpenCL call fails with
 * the error given. */
void faults_arm(enum fault_kind kind, size_t n, cl_int error);

/* Disarms. The name of the call that failed, NULL if it never came to that. */
const char *faults_disarm(void);

/* From now on clGetDeviceInfo(), clGetPlatformInfo() and the like, whose facts are told apart by their
 * numbers, answer `what` with these bytes: a device that is not at hand. Up to eight such facts; NULL
 * ends them all. The values are borrowed. */
void faults_pretend(cl_device_info what, const void *value, size_t bytes);

/* From now on commands are recorded, at most FAULTS_MOST_COMMANDS, with what they wait for. */
void faults_record(void);

/* Ends the recording. How many commands it holds, and in *loose how many of them need not be over
 * when the event is complete: neither the event's own nor among what that waits for, or these, and so
 * on. Of a queue out of order; whatever the device is quick enough to do before. */
size_t faults_recorded(cl_event event, size_t *loose);

/* Every clBuildProgram() asks this first, in its thread: an error is given as if by the call. NULL:
 * no longer. */
typedef cl_int (*faults_build_hook)(void *user);
void faults_on_build(faults_build_hook hook, void *user);

/* From now on the driver, of one device, returns `ptx` as the binary of any program. When it is
 * given a binary, it notes it in `taken` as a text and makes the program of `source`. NULL ends
 * this. */
struct faults_ptx {
    const char *ptx, *source;
    char taken[1024];
};
void faults_pretend_ptx(struct faults_ptx *driver);

/* From now on flock() fails with the error, as on file systems without locks; 0: no longer. */
void faults_no_locks(int error);

/* Returns how often fsync() was called so far, which does nothing. */
long faults_syncs(void);

/* Returns how many OpenCL objects of the program are alive; text receives the number of each
 * kind. */
long faults_objects_alive(char *text, size_t text_bytes);

/* Returns how many allocations of the program are alive. */
long faults_allocations_alive(void);

/* Both; and fails the test if they are not what they were before the n-th call failed. */
struct faults_alive {
    long objects, allocations;
};
struct faults_alive faults_alive(void);
void faults_expect_alive(struct faults_alive before, const char *call, size_t n);

/* A step that is repeated until none of its allocations fails: in round n, its allocation n does.
 *
 *     for (struct faults_rounds r = {0}; faults_next(&r);) {
 *         faults_begin(&r);
 *         ... the step ...
 *         if (faults_failed(&r)) ... no memory was said to lack, or the step did without ...
 *         ... what the step made is freed ...
 *     }
 *
 * faults_next() fails the test if more or fewer allocations are alive than when the step began. */
struct faults_rounds {
    size_t n;
    const char *failed;
    long alive;
    int begun, kept; /* kept: set by the test where the step may keep memory */
};
int faults_next(struct faults_rounds *rounds);
void faults_begin(struct faults_rounds *rounds);
int faults_failed(struct faults_rounds *rounds);

/* Returns how many commands were handed to a queue so far, and how many events they wait for. */
long faults_commands(void);
long faults_waits(void);

/* The largest work-group and local memory of all kernels enqueued since the last call. */
struct faults_largest {
    size_t work_group;
    cl_ulong local_bytes;
};
struct faults_largest faults_largest(void);

/* ---- for the wrappers ---------------------------------------------------------------------- */

enum object_kind {
    OBJECT_CONTEXT,
    OBJECT_QUEUE,
    OBJECT_BUFFER,
    OBJECT_PROGRAM,
    OBJECT_KERNEL,
    OBJECT_EVENT,
    NUM_OBJECT_KINDS
};

/* Answers as faults_pretend() was told; 0 if it was not told. */
int faults_pretended(cl_device_info what, size_t size, void *value, size_t *needed);

/* CL_SUCCESS, or the error with which the call named must fail, also by the hook above. */
cl_int faults_opencl(const char *call);
int faults_memory(const char *call);

void faults_object(enum object_kind kind, long change);
void faults_allocation(long change);
void faults_command(cl_uint num_wait, const cl_event *wait, cl_event event);
enum { FAULTS_MOST_COMMANDS = 64 };
int faults_lie(const char *call);

#endif
