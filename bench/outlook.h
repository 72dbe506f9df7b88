/* How far a run has come: on a terminal one line that is redrawn, with the time left. */
#ifndef CLATTN_BENCH_OUTLOOK_H
#define CLATTN_BENCH_OUTLOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct outlook {
    FILE *to;
    bool shown;   /* On a terminal, and not quiet. */
    bool drawn;   /* A line is on the screen. */
    double begin; /* By timing_clock(). */
    double done, total; /* Weights of the problems: what they are expected to cost. */
    double last;        /* When it was drawn last. */
};

/* Draws to a terminal only; `total` is the sum of the weights to come. */
void outlook_open(struct outlook *outlook, FILE *to, bool quiet, double total);

/* `what` is being done, a part (0 to 1) of a problem of that weight. Redraws at most 5 times a
 * second. */
void outlook_update(struct outlook *outlook, const char *what, double weight, double part);

/* A problem of that weight is done. */
void outlook_done(struct outlook *outlook, double weight);

/* Takes the line away, before something else is printed. */
void outlook_clear(struct outlook *outlook);

#endif
