/* The numbers of a page: the runs of all files as one matrix of devices, problems and
 * implementations. */
#ifndef CLATTN_BENCH_REPORT_H
#define CLATTN_BENCH_REPORT_H

#include "bench/records/results.h"

#define REPORT_LABEL 40 /* Characters of a label. */

struct report_label {
    char text[4 * REPORT_LABEL + 1];
};

/* One device of one run. */
struct report_device {
    const struct run_results *file;
    const struct device_run *run;
    struct report_label label; /* Short, and no other device has it. */
    bool measured;             /* It has at least one time. */
};

struct report_problem {
    const struct record *record; /* The first one of it. */
    struct report_label label;   /* Short, and no other problem has it. */
};

/* Everything is borrowed from the files but for the arrays. */
struct report {
    const struct run_results *files;
    size_t num_files;
    struct report_device *devices;
    size_t num_devices;
    struct report_problem *problems; /* In the order of the files, each once. */
    size_t num_problems;
    const char **names; /* Of the implementations: clattn, clattn untuned, the others. */
    size_t num_names;
    const struct record **cells; /* One for each device and problem; NULL where there is none. */
};

#define REPORT_CLATTN 0  /* Its place among the names. */
#define REPORT_UNTUNED 1 /* Likewise, measured or not. */

/* False without memory; report_free() is allowed then, too. */
bool report_open(struct report *report, const struct run_results *files, size_t num_files);
void report_free(struct report *report);

/* The number of its problem; num_problems if that is a new one. */
size_t report_find_problem(const struct report *report, const struct record *record);

const struct record *report_record(const struct report *report, size_t device, size_t problem);

/* NULL where that was not tried. */
const struct outcome *report_outcome(const struct report *report, size_t device, size_t problem,
                                     size_t name);

/* Seconds, GFLOP/s, the time over clattn's: NAN where there is no time. */
double report_seconds(const struct report *report, size_t device, size_t problem, size_t name);
double report_gflops(const struct report *report, size_t device, size_t problem, size_t name);
double report_ratio(const struct report *report, size_t device, size_t problem, size_t name);

/* Whether anything of that implementation was timed there. */
bool report_timed(const struct report *report, size_t device, size_t name);

/* How many devices have a time. */
size_t report_measured(const struct report *report);

/* Whether that was right only within the bounds of half-precision arithmetic. */
bool report_loose(const struct report *report, size_t device, size_t problem, size_t name);

/* NAN where it was not measured. */
double report_peak(const struct samples *samples);

/* A series of ratios. */
struct spread {
    double mean; /* Geometric. */
    double low, high;
    size_t count;
};

/* Takes in what is finite and positive; the rest is left out. */
void spread_add(struct spread *spread, double value);

/* Of an implementation's times over clattn's on a device. */
struct spread report_spread(const struct report *report, size_t device, size_t name);

/* Gives a problem the name of its workload and, where several problems have that name, what sets it
 * apart from them; without a name the problem itself. Problems before it have their labels, and no
 * two are the same. */
void report_label_problem(struct report *report, size_t problem);

#endif
