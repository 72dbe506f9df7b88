/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a configuration that was tried. */
#ifndef CA_OUTCOME_H
#define CA_OUTCOME_H

#include <stddef.h>
#include <stdint.h>

enum ca_outcome {
    CA_CORRECT,
    CA_COMPILE_FAILED, /* the compiler named an error in the source */
    CA_RUNTIME_FAILED, /* something else did, which may pass: memory ran out, or a disk was full */
    CA_CONSTRAINT_FAILED,
    CA_TIMED_OUT, /* twice */
    CA_WRONG,     /* it ran, and its result is wrong */
    CA_CRASHED,   /* twice: each time it ended a process */
    CA_NUM_OUTCOMES
};

enum { CA_READING_TIMES = 64, CA_READING_REASON = 256 };

/* One configuration on one problem. */
struct ca_reading {
    enum ca_outcome outcome;
    double times[CA_READING_TIMES]; /* seconds of one execution each */
    size_t num_times;
    double error;    /* the worst element's, over its bound */
    uint64_t binary; /* hash of the built program; 0 if unknown. Equal: the same program */
    double compile_seconds;
    char reason[CA_READING_REASON]; /* why it failed, a sentence; else empty */
};

#endif
