/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of peaks.cl in one of their forms. */
#ifndef CLATTN_BENCH_PEAK_FORM_H
#define CLATTN_BENCH_PEAK_FORM_H

#include "bench/timing/target.h"

/* The types that peaks multiply and add. */
enum peak_kind {
    PEAK_F32,
    PEAK_F16,  /* On devices with cl_khr_fp16. */
    PEAK_BF16, /* On processors that multiply pairs (AVX512-BF16) or tiles (AMX) of bf16. */
    NUM_PEAK_KINDS
};

struct peak_form {
    enum peak_kind kind;
    unsigned lanes, chains; /* Vector width (0: the machine's) and independent accumulators. */
    const char *operation;  /* "fma", "mad", "dot_pairs" or "multiply_tiles". */
    unsigned depth;         /* Multiply-adds of an instruction in each lane; 0: one. */
    bool accumulates;       /* a = x * y + a, not a = a * x + y. */
    bool alone;             /* Work-groups of one, each going through memory of its own. */
    size_t local, global;
    cl_program program;
    cl_kernel fma;
    double best; /* Operations per second as known so far. */
};

#define PEAK_MOST_FORMS 12

/* The forms that suit the device, without programs; how many. */
size_t peak_form_list(struct peak_form forms[PEAK_MOST_FORMS], const clattn_device_info *info);

/* Builds it and finds its rate roughly; `out` receives what the kernel writes. False if the device
 * cannot do it, or not so that it can be timed. */
bool peak_form_open(struct peak_form *form, const struct target *target, cl_mem out,
                    struct message *why);

/* Allowed on a form that failed to open, or was never opened. */
void peak_form_close(struct peak_form *form);

/* Operations per second in one sample of some 30 ms, in launches of about `launch_seconds` (within
 * bounds). */
bool peak_form_sample(const struct peak_form *form, const struct target *target,
                      double launch_seconds, double *rate, struct message *why);

/* "fma(x,y,a), 16 lanes, 12 chains, groups of 1" */
void peak_form_describe(const struct peak_form *form, char text[64]);

/* The median seconds of so many launches of a kernel whose arguments are set. */
bool peak_time_launches(const struct target *target, cl_kernel kernel, size_t global, size_t local,
                        size_t launches, double *seconds, struct message *why);

/* Says which call failed, and returns false. */
bool peak_fail(struct message *why, const char *call, cl_int err);

#endif
