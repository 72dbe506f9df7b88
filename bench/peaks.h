/* What the device can do at best, measured in the same run as the problems: the clock of a shared
 * machine wanders, a share of the peak does not. */
#ifndef CLATTN_BENCH_PEAKS_H
#define CLATTN_BENCH_PEAKS_H

#include "target.h"

struct peaks {
    const struct target *target;
    cl_program program;
    cl_kernel fma, read, copy;
    cl_mem from, to;
    size_t local, global;   /* Of the FMA kernel. */
    size_t stream_global;   /* Of the memory kernels; their local size is the same. */
    unsigned lanes, chains; /* The FMA kernel's shape, the fastest of those tried. */
    cl_uint rounds;         /* Makes a launch long enough to be timed. */
    cl_uint count;          /* Vectors per work-item of the memory kernels. */
    size_t buffer_bytes;    /* Read by one launch. */
};

/* Builds the kernels in the shapes that suit the device and keeps the fastest. */
bool peaks_open(struct peaks *peaks, const struct target *target, struct message *why);

void peaks_close(struct peaks *peaks);

/* Each is one sample of some 30 ms, the median of three launches. */
bool peaks_fma(struct peaks *peaks, double *gflops, struct message *why);
bool peaks_read(struct peaks *peaks, double *gigabytes, struct message *why);
bool peaks_copy(struct peaks *peaks, double *gigabytes,
                struct message *why); /* Read and written. */

#endif
