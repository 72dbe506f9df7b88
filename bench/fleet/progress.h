/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of a run: on a terminal one line that is redrawn, with the time left. It is also
 * a sign of life for the program that started this one. */
#ifndef CLATTN_BENCH_PROGRESS_H
#define CLATTN_BENCH_PROGRESS_H

#include "os/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The environment's name for the descriptor of an inherited pipe. What is being done goes there, a
 * line each time it changes and at least one a second, terminal or not. */
#define PROGRESS_HEARTBEAT "CLATTN_BENCH_HEARTBEAT"

struct progress {
    FILE *to;
    bool shown;           /* On a terminal, and not quiet. */
    bool drawn;           /* A line is on the screen. */
    ca_file heart;        /* The pipe, or CA_NO_FILE. */
    size_t index, count;  /* Problems done and to be done in all. */
    double begin;         /* Start of the first problem, by ca_stopwatch_now(); 0: not yet. */
    double done, total;   /* Weights of the problems: what they are expected to cost. */
    double redrawn, beat; /* Times of the last drawing and of the last write to the pipe. */
    char what[128];       /* The text that was written to the pipe last. */
};

/* `count` problems will be done, whose weights sum to `total`. A line is only drawn on a terminal. The pipe to the parent is
 * removed from the environment, so that children of this program do not use it. */
void progress_open(struct progress *progress, FILE *to, bool quiet, size_t count, double total);

/* Says that `what` is being done, and that a part (0 to 1) of a problem of that weight is done. Redraws the line at most
 * 5 times a second. */
void progress_update(struct progress *progress, const char *what, double weight, double part);

/* Says that a problem of that weight is done. */
void progress_done(struct progress *progress, double weight);

/* Erases the line, so that something else can be printed. */
void progress_clear(struct progress *progress);

#endif
