/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of one problem of a run, implementation by implementation. */
#ifndef CLATTN_BENCH_RECORD_H
#define CLATTN_BENCH_RECORD_H

#include "bench/judge/worst.h"
#include "bench/records/distributed.h"
#include "bench/records/samples.h"
#include "bench/timing/cold_start.h"
#include "cli/message.h"
#include "internal.h"

#include <stddef.h>

#define RECORD_MOST_OUTCOMES 12

enum outcome_state {
    OUTCOME_MEASURED,
    OUTCOME_LOOSE,       /* Measured; right only within the bounds of half-precision arithmetic. */
    OUTCOME_UNSUPPORTED, /* It cannot compute this problem. */
    OUTCOME_WRONG,       /* Its results are out of bounds: its time means nothing. */
    OUTCOME_FAILED       /* It crashed, hung, ran out of memory. */
};

/* "measured", "loose", "unsupported", "wrong", "failed"; the last is NULL. */
extern const char *const outcome_state_words[];
const char *outcome_state_name(enum outcome_state state);

/* One implementation on one problem. */
struct outcome {
    char implementation[32]; /* "clattn", "clattn untuned" or a peer's name. */
    enum outcome_state state;
    struct message why;     /* Why it was not measured; "" if it was. */
    char *configuration;    /* Owned; NULL if it says none. For clattn what `duel` takes. */
    struct samples seconds; /* Device times of one execution; none unless measured. */
    struct samples host;    /* The calling thread's times of enqueueing one; none: not separable. */
    double
        cold_start_source; /* Seconds until the first result, with nothing compiled before, in a new
                          * process; NaN if unknown. */
    double cold_start_cache; /* Seconds until the first result once all caches are filled. */
    struct cold_start_parts cold_start_parts; /* The parts of cold_start_source. */
    struct ca_interval ratio; /* Time over clattn's, round by round; of clattn itself 1, 1, 1. */
    struct worst worst;       /* The worst result, against the bounds of f32 arithmetic. */
    /* Facts of an execution over MPI ranks; NULL: on one device. Owned. */
    struct distributed *distributed;
};

/* Returns whether it has a time that may be shown. */
bool outcome_timed(const struct outcome *outcome);

/* Takes an implementation out of the run: sets the state and why, formatted as by printf, and drops
 * its times. */
void outcome_give_up(struct outcome *outcome, enum outcome_state state, const char *format, ...);

/* Takes it out of the run because a result is out of bounds. */
void outcome_wrong(struct outcome *outcome, const struct worst *worst);

/* The peak of the device that limits a problem most. */
enum roof { ROOF_FMA, ROOF_READ, ROOF_FMA_BF16, NUM_ROOFS };

/* "fma", as files have it (the last is NULL), and "multiply-adds", as people read it. */
extern const char *const roof_keys[];
const char *roof_words(enum roof roof);

struct record {
    char name[128]; /* The workload, or the case in a file. */
    char *problem;  /* Text form, of a layer too; owned. */
    char *reason;   /* Why clattn has chosen its configuration; owned. */
    size_t workspace_bytes;
    double flops;   /* Operations of one execution, without pairs that masks and lengths hide. */
    double bytes;   /* The fewest bytes that any implementation must read and write. */
    size_t copies;  /* Number of sets of tensors that were used in turn. */
    bool from_file; /* Results were compared with an answer in a file, not with the reference. */
    enum roof roof; /* The tighter of the problem's roofs, by the peaks of this run. */
    double
        overhead; /* Seconds of a call of clattn's beyond the driver's part of it; NaN: unknown. */
    /* Clattn's share of that roof: each sample over the peak measured beside it. */
    struct samples share;
    struct outcome outcome[RECORD_MOST_OUTCOMES]; /* clattn's first. */
    size_t count;
};

/* clattn, tuned and untuned, was measured; what peers do is their own affair. */
bool record_ok(const struct record *record);

/* clattn's share of the roof times how much faster or slower this one is; 0 without a time. */
double record_share(const struct record *record, const struct outcome *outcome);

/* The operations and bytes of what the outcome is the time of: the record's, but with weak scaling. */
double record_flops(const struct record *record, const struct outcome *outcome);
double record_bytes(const struct record *record, const struct outcome *outcome);

/* The outcome of that implementation, or NULL. */
const struct outcome *record_find(const struct record *record, const char *implementation);

/* The origin of a choice in a word: "tuned", "stale", "nearest", "shipped", "untuned", "override"
 * or "forced", for a layer "steps"; "unknown" for the reasons of another version of the library. */
const char *record_origin(const char *reason);
extern const char *const record_origin_words[]; /* All of these; the last is NULL. */

void record_free(struct record *record);

#endif
