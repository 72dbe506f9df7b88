/* The kernels of peaks.cl in one of their forms. */
#ifndef CLATTN_BENCH_PEAK_FORM_H
#define CLATTN_BENCH_PEAK_FORM_H

#include "bench/timing/target.h"

struct peak_form {
    unsigned lanes, chains; /* Vector width (0: the machine's) and independent accumulators. */
    const char *operation;  /* "fma" or "mad". */
    bool accumulates;       /* a = x * y + a, not a = a * x + y. */
    bool half;
    bool alone; /* Work-groups of one, each going through memory of its own. */
    size_t local, global;
    cl_program program;
    cl_kernel fma;
    double best; /* Operations per second as known so far. */
};

#define PEAK_MOST_FORMS 10

/* The forms that suit the device, without programs; how many. */
size_t peak_form_list(struct peak_form forms[PEAK_MOST_FORMS], const clattn_device_info *info);

/* Builds it and finds its rate roughly; `out` receives what the kernel writes. False if the device
 * cannot do it, or not so that it can be timed. */
bool peak_form_open(struct peak_form *form, const struct target *target, cl_mem out,
                    struct message *why);

/* Allowed on what failed to open, or never was. */
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

#endif
