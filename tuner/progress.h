/* SPDX-License-Identifier: Apache-2.0 */
/* The progress that clattn-tune shows: on a terminal one line that is redrawn, elsewhere a line
 * for each event worth one. */
#ifndef CA_PROGRESS_H
#define CA_PROGRESS_H

#include <clattn/tuning.h>
#include <stdbool.h>
#include <stdio.h>

struct ca_progress {
    FILE *to;
    bool quiet, terminal;
    double shown; /* time at which an update was drawn last */
    bool drawn;   /* a line is on the screen */
    double since; /* seconds of ca_stopwatch_now() at the last update; 0: none yet */
    double budget, elapsed, left, best, untuned;
    size_t problem, num_problems, evaluations;
    char phase[16], what[256];
};

/* budget: seconds, 0 if there is no limit. */
void ca_progress_open(struct ca_progress *progress, FILE *to, bool quiet, double budget);

/* `what` is being worked on. */
void ca_progress_update(struct ca_progress *progress, const clattn_tuning_progress *now,
                        const char *what);

/* Before the first update: what is being tried. */
void ca_progress_trying(struct ca_progress *progress, const char *what);

/* Lets the clock go on while nothing happens. */
void ca_progress_tick(struct ca_progress *progress);

/* A line that stays, above the one that is redrawn. Nothing if quiet. */
void ca_progress_say(struct ca_progress *progress, const char *format, ...);

/* Takes the redrawn line away. */
void ca_progress_clear(struct ca_progress *progress);

/* "1.23 ms". */
enum { CA_TIME_TEXT = 24 };
const char *ca_time_print(double seconds, char text[CA_TIME_TEXT]);

#endif
