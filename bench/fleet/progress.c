/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fleet/progress.h"
#include "cli/message.h"
#include "cli/terminal/status_line.h"
#include "internal.h"
#include "os/environment.h"
#include "os/interrupt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_PAUSE 0.2
#define HEARTBEAT 1.0

/* From this many seconds, and this part of all work, on, the time left can be estimated. */
#define LEAST_SECONDS 1.0
#define LEAST_PART 0.02

enum { BAR_NEEDS = 70 };

/* ---- the pipe -------------------------------------------------------------------------------- */

/* A pipe that the environment names, or none. */
static ca_file find_heart(void)
{
    const char *name = ca_environment_value(PROGRESS_HEARTBEAT);
    const ca_file heart = name != NULL ? ca_parent_pipe(strtol(name, NULL, 10)) : CA_NO_FILE;

    ca_variable_set(PROGRESS_HEARTBEAT, NULL);
    return heart;
}

/* Writes a heartbeat. The reader is the parent that wants this program's results: if nobody reads,
 * the program ends. */
static void beat(struct progress *progress, const char *what, double now)
{
    char line[sizeof progress->what + 1];
    const bool news = strncmp(progress->what, what, sizeof progress->what - 1) != 0;

    if (progress->heart == CA_NO_FILE || (!news && now < progress->beat + HEARTBEAT))
        return;
    snprintf(progress->what, sizeof progress->what, "%s", what);
    ca_make_printable(progress->what);
    const int length = snprintf(line, sizeof line, "%s\n", progress->what);
    progress->beat = now;
    if (!ca_pipe_write(progress->heart, line, (size_t)length) && errno == EPIPE) {
        progress->heart = CA_NO_FILE;
        ca_interrupt_self();
    }
}

/* ---- the line -------------------------------------------------------------------------------- */

/* "1:23 left", or "1:02:03 left". */
static void add_time(struct ca_status_line *line, double left)
{
    const unsigned long seconds = (unsigned long)(left + 0.5);

    if (seconds < 3600)
        ca_status_add(line, "%lu:%02lu left  ", seconds / 60, seconds % 60);
    else
        ca_status_add(line, "%lu:%02lu:%02lu left  ", seconds / 3600, seconds / 60 % 60,
                      seconds % 60);
}

static void draw(struct progress *progress, const char *what, double part, double now)
{
    const double elapsed = now - progress->begin;
    struct ca_status_line line = {.length = 0};

    if (ca_terminal_width(progress->to) >= BAR_NEEDS)
        ca_status_add_bar(&line, part);
    ca_status_add(&line, "%3.0f%%  ", 100.0 * part);
    if (part >= LEAST_PART && elapsed >= LEAST_SECONDS)
        add_time(&line, elapsed * (1.0 - part) / part);
    ca_status_add(&line, "%zu/%zu ",
                  progress->index < progress->count ? progress->index + 1 : progress->count,
                  progress->count);
    ca_status_add(&line, "%.*s", CA_TERMINAL_MOST, what);
    ca_status_draw(progress->to, &line);
    progress->drawn = true;
    progress->redrawn = now;
}

/* ---------------------------------------------------------------------------------------------- */

void progress_open(struct progress *progress, FILE *to, bool quiet, size_t count, double total)
{
    *progress = (struct progress){.to = to,
                                  .shown = !quiet && ca_terminal(to),
                                  .heart = find_heart(),
                                  .count = count,
                                  .total = total};
}

void progress_update(struct progress *progress, const char *what, double weight, double part)
{
    const double now = ca_stopwatch_now();
    const double done = progress->done + weight * part;

    /* time starts with the first problem: preparations have no weight */
    if (progress->begin == 0.0 && weight > 0.0)
        progress->begin = now;
    beat(progress, what, now);
    if (progress->shown && (!progress->drawn || now >= progress->redrawn + LEAST_PAUSE))
        draw(progress, what,
             progress->total > 0.0 ? fmin(fmax(done / progress->total, 0.0), 1.0) : 0.0, now);
}

void progress_done(struct progress *progress, double weight)
{
    progress->done += weight;
    progress->index++;
}

void progress_clear(struct progress *progress)
{
    if (progress->drawn)
        ca_status_clear(progress->to);
    progress->drawn = false;
}
