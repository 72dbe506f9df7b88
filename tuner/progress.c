/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/progress.h"
#include "cli/message.h"
#include "cli/terminal/status_line.h"
#include "internal.h"

#include <stdarg.h>
#include <string.h>

/* Seconds between two drawings: the rounds of a race follow each other fast. */
#define LEAST_PAUSE 0.05

const char *ca_time_print(double seconds, char text[CA_TIME_TEXT])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    size_t n = 0;

    while (n + 1 < sizeof units / sizeof *units && seconds < units[n].unit)
        n++;
    snprintf(text, CA_TIME_TEXT, "%.*f %s",
             seconds >= 100.0 * units[n].unit  ? 0
             : seconds >= 10.0 * units[n].unit ? 1
                                               : 2,
             seconds / units[n].unit, units[n].name);
    return text;
}

void ca_progress_open(struct ca_progress *progress, FILE *to, bool quiet, double budget)
{
    *progress = (struct ca_progress){
        .to = to, .quiet = quiet, .terminal = ca_terminal(to), .budget = budget};
}

void ca_progress_clear(struct ca_progress *progress)
{
    if (progress->drawn)
        ca_status_clear(progress->to);
    progress->drawn = false;
    fflush(progress->to);
}

void ca_progress_say(struct ca_progress *progress, const char *format, ...)
{
    va_list list;

    if (progress->quiet)
        return;
    ca_progress_clear(progress);
    va_start(list, format);
    message_say_list(progress->to, format, list);
    va_end(list);
    fflush(progress->to);
}

/* "[####----] 0:41 left". */
static void add_time(struct ca_status_line *line, const struct ca_progress *progress)
{
    const double waited = ca_stopwatch_now() - progress->since;
    const double left = progress->left > waited ? progress->left - waited : 0.0;
    const double elapsed = progress->elapsed + waited, whole = elapsed + left;
    const unsigned long seconds = (unsigned long)(left + 0.5);

    ca_status_add_bar(line, whole > 0.0 ? elapsed / whole : 0.0);
    ca_status_add(line, "%lu:%02lu left", seconds / 60, seconds % 60);
}

static void draw(struct ca_progress *progress)
{
    struct ca_status_line line = {.length = 0};
    char best[CA_TIME_TEXT];

    if (progress->num_problems == 0) {
        ca_status_add(&line, "first of all %s", progress->what);
    } else {
        add_time(&line, progress);
        ca_status_add(&line, "  %zu tried", progress->evaluations);
        if (progress->best > 0.0)
            ca_status_add(&line, "  %s", ca_time_print(progress->best, best));
        if (progress->best > 0.0 && progress->untuned > 0.0)
            ca_status_add(&line, " %.2fx", progress->untuned / progress->best);
        ca_status_add(&line, "  %s %zu/%zu %s", progress->phase, progress->problem + 1,
                      progress->num_problems, progress->what);
    }
    ca_status_draw(progress->to, &line);
    progress->drawn = true;
}

void ca_progress_trying(struct ca_progress *progress, const char *what)
{
    if (progress->num_problems > 0)
        return;
    snprintf(progress->what, sizeof progress->what, "%s", what);
    ca_progress_tick(progress);
}

void ca_progress_update(struct ca_progress *progress, const clattn_tuning_progress *now,
                        const char *what)
{
    progress->since = ca_stopwatch_now();
    progress->elapsed = now->seconds;
    progress->left = now->seconds_left;
    if (progress->left <= 0.0 && progress->budget > now->seconds) /* there is no estimate yet */
        progress->left = progress->budget - now->seconds;
    progress->best = now->best;
    progress->untuned = now->untuned;
    progress->problem = now->problem;
    progress->num_problems = now->num_problems;
    progress->evaluations = now->evaluations;
    snprintf(progress->phase, sizeof progress->phase, "%s", now->phase);
    snprintf(progress->what, sizeof progress->what, "%s", what);
    if (!progress->terminal || progress->quiet || progress->since < progress->shown + LEAST_PAUSE)
        return;
    progress->shown = progress->since;
    draw(progress);
}

void ca_progress_tick(struct ca_progress *progress)
{
    if (progress->terminal && !progress->quiet && progress->what[0])
        draw(progress);
}
