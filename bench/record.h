/* What one problem of a run came to, and the run's own facts. */
#ifndef CLATTN_BENCH_RECORD_H
#define CLATTN_BENCH_RECORD_H

#include "measure.h"
#include "peaks.h"
#include "statistics.h"
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
    char name[128];      /* The workload, or the case in a file. */
    char *problem;       /* Text form; owned. */
    char *family;        /* Owned. */
    char *tunables;      /* Owned. */
    char *configuration; /* Both, as clattn-bench duel takes them; owned. */
    char *reason;        /* Why this configuration; owned. */
    size_t workspace_bytes;
    double flops; /* Of one execution. */
    struct samples seconds;
    struct samples share; /* Of the FMA peak, each sample against the peak beside it. */
    char *untuned; /* The configuration chosen without tuning; owned, NULL if nobody asked. */
    struct samples untuned_seconds; /* None if that is the same configuration. */
    struct worst untuned_worst;
    struct ca_interval gain; /* The untuned time over this one, pair by pair. */
    const char *against;     /* What the results were compared with: "reference" or "file". */
    struct worst worst;
};

/* All that was compared is within its bounds. */
bool record_ok(const struct record *record);

/* Takes down what will run. */
bool record_describe(struct record *record, const struct measurement *m, struct message *why);

/* Where a choice comes from, in a word: "tuned", "stale", "nearest", "shipped", "untuned",
 * "override" or "forced"; "unknown" for the reasons of another version of the library. */
const char *record_origin(const char *reason);

void record_free(struct record *record);

/* The peaks of a run, in GFLOP/s and GB/s. */
struct peak_samples {
    struct samples fma, read, copy;
    struct peak_form form;
    bool exceeded; /* A share is clearly over 100 %. */
};

#endif
