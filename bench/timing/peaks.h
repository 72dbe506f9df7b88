/* SPDX-License-Identifier: Apache-2.0 */
/* The peaks of the device, measured in the same run as the problems. The clock of a shared
 * machine varies, and a share of the peak does not. */
#ifndef CLATTN_BENCH_PEAKS_H
#define CLATTN_BENCH_PEAKS_H

#include "bench/timing/peak_form.h"

/* A kernel that goes through memory. */
struct peak_stream {
    cl_kernel kernel;
    size_t local, global;
    double bytes; /* Bytes that one launch reads and writes. */
    double best;  /* Bytes per second, as first measured. */
};

struct peaks {
    const struct target *target;
    struct peak_form forms[PEAK_MOST_FORMS];
    size_t num_forms;
    const struct peak_form *fastest[NUM_PEAK_KINDS]; /* NULL where the device has no such thing. */
    struct peak_stream read, copy;
    cl_mem from, to;
    size_t buffer_bytes;
    char form[NUM_PEAK_KINDS][64]; /* The fastest in words; "" where there is none. */
};

/* Builds the kernels in the forms that suit the device and finds the fastest. Against chance each form is timed
 * three times, or `most` times where that is less and not 0. */
bool peaks_open(struct peaks *peaks, const struct target *target, size_t most, struct message *why);

void peaks_close(struct peaks *peaks);

/* One sample of some 30 ms of a kind that the device has (form), in launches of about `launch_seconds` (within bounds): as long
 * as the executions that it is compared with, so that interruptions weigh the same. */
bool peaks_fma(struct peaks *peaks, enum peak_kind kind, double launch_seconds, double *gflops,
               struct message *why);

/* One sample of three launches; copying counts what is read and what is written. */
bool peaks_read(struct peaks *peaks, double *gigabytes, struct message *why);
bool peaks_copy(struct peaks *peaks, double *gigabytes, struct message *why);

/* Returns how much memory reading walks through: a problem that is compared with it has to walk
 * through as much, or the caches help it alone. */
double peaks_read_bytes(const struct peaks *peaks);

#endif
