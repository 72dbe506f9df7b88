/* What the device can do at best, measured in the same run as the problems: the clock of a shared
 * machine wanders, a share of the peak does not. */
#ifndef CLATTN_BENCH_PEAKS_H
#define CLATTN_BENCH_PEAKS_H

#include "target.h"

/* A form of the multiply-add kernel; several are tried, the fastest stays. */
struct peak_form {
    unsigned lanes, chains; /* Vector width and independent accumulators. */
    const char *operation;  /* "fma" or "mad". */
    cl_program program;
    cl_kernel kernel;
    double best; /* Operations per second. */
};

#define PEAK_MOST_FORMS 4

struct peaks {
    const struct target *target;
    struct peak_form forms[PEAK_MOST_FORMS];
    const struct peak_form *form; /* The fastest. */
    cl_kernel read, copy;
    cl_mem from, to;
    size_t local;         /* Of all kernels. */
    size_t fma_global;    /* Of the multiply-add kernels. */
    size_t stream_global; /* Of the memory kernels. */
    cl_uint count;        /* Vectors per work-item of the memory kernels. */
    size_t buffer_bytes;  /* Read by one launch. */
};

/* Builds the kernels in the forms that suit the device and finds the fastest. */
bool peaks_open(struct peaks *peaks, const struct target *target, struct message *why);

void peaks_close(struct peaks *peaks);

/* One sample of some 30 ms, in launches of about `launch_seconds` (within bounds): as long as the
 * executions that it is compared with, so that interruptions weigh the same. */
bool peaks_fma(struct peaks *peaks, double launch_seconds, double *gflops, struct message *why);

/* One sample of three launches; copying counts what is read and what is written. */
bool peaks_read(struct peaks *peaks, double *gigabytes, struct message *why);
bool peaks_copy(struct peaks *peaks, double *gigabytes, struct message *why);

#endif
