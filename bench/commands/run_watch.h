/* SPDX-License-Identifier: Apache-2.0 */
/* A run in a process of its own, watched: a device that hangs holds up nobody for ever. */
#ifndef CLATTN_BENCH_RUN_WATCH_H
#define CLATTN_BENCH_RUN_WATCH_H

#include "bench/commands/run_state.h"

/* The environment's name for a file where a watched run saves its results as well. */
#define RUN_WATCH_SAVE "CLATTN_BENCH_SAVE"

/* Runs the command line again in a child that has it all to say. One that crashes or hangs is ended
 * and reported in one sentence, and what it had measured by then is written where it was to go.
 * What the process is to end with. */
int run_watch(const struct run_settings *settings, int argc, char **argv);

/* Whether this process is such a child, or one of a fleet. */
bool run_is_watched(void);

#endif
