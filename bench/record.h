/* What one problem of a run came to, and the run's own facts. */
#ifndef CLATTN_BENCH_RECORD_H
#define CLATTN_BENCH_RECORD_H

#include "peaks.h"
#include "worst.h"
#include <stddef.h>

#define RECORD_MOST_SAMPLES 100

struct samples {
    double value[RECORD_MOST_SAMPLES];
    size_t count;
};

void samples_add(struct samples *samples, double value);

/* 0 without samples. */
double samples_median(const struct samples *samples);
double samples_minimum(const struct samples *samples);

struct record {
    char name[128]; /* The workload, or the case in a file. */
    char *problem;  /* Text form; owned. */
    char *family;   /* Owned. */
    char *tunables; /* Owned. */
    char *reason;   /* Why this family; owned. */
    size_t workspace_bytes;
    double flops; /* Of one execution. */
    struct samples seconds;
    struct samples share; /* Of the FMA peak, each sample against the peak beside it. */
    const char *against;  /* What the results were compared with: "reference" or "file". */
    struct worst worst;
};

void record_free(struct record *record);

/* The peaks of a run, in GFLOP/s and GB/s. */
struct peak_samples {
    struct samples fma, read, copy;
    struct peak_form form;
    bool exceeded; /* A share is clearly over 100 %. */
};

#endif
