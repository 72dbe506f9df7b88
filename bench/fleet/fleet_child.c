/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fleet/fleet_child.h"
#include "bench/fleet/progress.h"
#include "cli/terminal/terminal.h"
#include "internal.h"
#include "os/interrupt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEART = 3 /* the child's number of it */, TICK_MILLISECONDS = 100 };

/* Seconds in which a child may end in an orderly way, and those in which it must end once it was
 * killed. */
#define GRACE_SECONDS 5.0
#define DEATH_SECONDS 3.0

/* ---- starting -------------------------------------------------------------------------------- */

/* 0 or an error number. */
static int start(struct ca_child *started, const struct fleet_child *child, ca_file heart)
{
    const struct ca_child_files files = {
        .input = child->input ? CA_OWN_INPUT : CA_NO_FILE,
        .output = child->output,
        .errors = CA_OWN_ERRORS,
        .more = {{heart, HEART}},
        .num_more = 1,
    };
    const char **argv = calloc(child->num_arguments + 2, sizeof *argv);
    char heartbeat[64], save[320], device[64];
    const char *variables[4] = {heartbeat};

    if (argv == NULL)
        return ENOMEM;
    argv[0] = child->program;
    for (size_t n = 0; n < child->num_arguments; n++)
        argv[n + 1] = child->arguments[n];
    snprintf(heartbeat, sizeof heartbeat, PROGRESS_HEARTBEAT "=%d", HEART);
    if (child->save != NULL) {
        snprintf(save, sizeof save, FLEET_SAVE "=%s", child->save);
        variables[1] = save;
    }
    if (child->device != NULL) { /* a child for one device also has a file to save to */
        snprintf(device, sizeof device, FLEET_DEVICE "=%s", child->device);
        variables[2] = device;
    }
    const int error = ca_child_start(started, argv, &files, variables);
    free((void *)argv);
    return error;
}

/* ---- watching -------------------------------------------------------------------------------- */

struct watch {
    struct ca_child child;
    ca_file heart;         /* CA_NO_FILE once the child has closed its end */
    char text[256];        /* the beginning of an incomplete line */
    struct fleet_end *end; /* facts of the end that are known so far */
};

/* Waits a moment, at most until the child writes to the pipe, and returns whether it did. Keeps the
 * last complete line as the child's present activity. */
static bool wait_for_sign(struct watch *watch)
{
    const size_t length = strlen(watch->text);

    if (watch->heart == CA_NO_FILE) {
        ca_nap(1e-3 * TICK_MILLISECONDS);
        return false;
    }
    const ptrdiff_t count = ca_pipe_read(watch->heart, watch->text + length,
                                         sizeof watch->text - 1 - length, TICK_MILLISECONDS);
    if (count < 0) {
        ca_file_close(watch->heart);
        watch->heart = CA_NO_FILE;
    }
    if (count <= 0)
        return count < 0;
    watch->text[length + (size_t)count] = '\0';
    for (char *end; (end = strchr(watch->text, '\n')) != NULL;) {
        *end = '\0';
        snprintf(watch->end->doing, sizeof watch->end->doing, "%.*s",
                 (int)sizeof watch->end->doing - 1, watch->text);
        ca_make_printable(watch->end->doing);
        memmove(watch->text, end + 1, strlen(end + 1) + 1);
    }
    if (strlen(watch->text) == sizeof watch->text - 1) /* no line of ours is that long */
        watch->text[0] = '\0';
    return true;
}

static bool ends_within(struct watch *watch, double seconds)
{
    const double deadline = ca_stopwatch_now() + seconds;

    while (!ca_child_has_ended(&watch->child) && ca_stopwatch_now() < deadline &&
           ca_interrupts() < 2)
        wait_for_sign(watch);
    return ca_child_has_ended(&watch->child);
}

/* Until it ends, of itself or because it has to. */
static void attend(struct watch *watch, double silence)
{
    double heard = ca_stopwatch_now();
    bool told = false;

    while (!ca_child_has_ended(&watch->child)) {
        if (wait_for_sign(watch))
            heard = ca_stopwatch_now();
        if (ca_interrupts() > 0 && !told) {
            ca_child_interrupt(&watch->child);
            told = true;
        }
        if (ca_interrupts() > 1)
            return;
        if (ca_stopwatch_now() - heard < silence)
            continue;
        watch->end->silent = true;
        ca_child_ask_to_end(&watch->child);
        ends_within(watch, fmin(GRACE_SECONDS, silence));
        return;
    }
}

bool fleet_child_run(const struct fleet_child *child, struct fleet_end *end, struct message *why)
{
    struct watch watch = {.end = end};
    ca_file ends[2];

    memset(end, 0, sizeof *end);
    if (!ca_pipe(ends))
        return message_set(why, "got no pipe: %s", strerror(errno));
    ca_pipe_drop_excess(ends);
    const int error = start(&watch.child, child, ends[1]);
    ca_file_close(ends[1]);
    watch.heart = ends[0];
    if (!error) {
        attend(&watch, child->silence);
        ca_child_kill(&watch.child); /* also kills a compiler that the child ran */
        for (const double deadline = ca_stopwatch_now() + DEATH_SECONDS;
             !ca_child_has_ended(&watch.child) && ca_stopwatch_now() < deadline;)
            wait_for_sign(&watch);
        /* reads what the child wrote before its end */
        while (watch.heart != CA_NO_FILE && wait_for_sign(&watch))
            continue;
        end->stuck = !ca_child_reap(&watch.child, 0.0, &end->end);
    }
    if (watch.heart != CA_NO_FILE)
        ca_file_close(watch.heart);
    return !error || message_set(why, "%s was not started: %s", child->program, strerror(error));
}

/* ---- telling --------------------------------------------------------------------------------- */

bool fleet_end_is(const struct fleet_end *end, int exit_status)
{
    return !end->stuck && !end->silent && end->end.death == 0 && end->end.status == exit_status;
}

void fleet_end_describe(const struct fleet_end *end, double silence, struct message *how)
{
    char doing[200] = "", death[80];

    if (end->doing[0] != '\0')
        snprintf(doing, sizeof doing, " while it did '%s'", end->doing);
    ca_child_print_death(&end->end, death, sizeof death);
    if (end->silent)
        message_set(how, "gave no sign of life for %.3g s%s and was ended%s", silence, doing,
                    end->stuck ? ", but hangs in its driver" : "");
    else if (end->stuck)
        message_set(how, "does not end%s: it hangs in its driver", doing);
    else if (end->end.death != 0)
        message_set(how, "%skilled by %s%s%s", end->end.crashed ? "the driver crashed: " : "",
                    death, doing,
                    end->end.killed ? "; the system does so when memory runs out" : "");
    else
        message_set(how, "ended with exit status %d%s", end->end.status, doing);
}

void fleet_complain(const char *device, const struct message *what)
{
    fprintf(stderr, "%sclattn-bench run: %.60s: %s\n", ca_terminal(stderr) ? "\r\033[K" : "",
            device, what->text);
}
