/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_watch.h"
#include "bench/commands/options.h"
#include "bench/fleet/fleet_child.h"
#include "bench/records/csv.h"
#include "cli/terminal/terminal.h"
#include "os/interrupt.h"
#include "os/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool run_is_watched(void)
{
    return getenv(PROGRESS_HEARTBEAT) != NULL;
}

/* The sentence, with what the child had saved: it goes where the child would have put it. */
static void salvage(const struct run_settings *settings, const char *path,
                    const struct message *how)
{
    struct run_results results;
    struct message why;
    const bool there = results_read(path, &results, &why) && results.count == 1;
    const char *name = there ? results.devices[0].info.name : "the run";

    /* A child that crashed has left its line of progress on the screen. */
    fprintf(stderr, "%sclattn-bench run: %.60s: %s\n", ca_terminal(stderr) ? "\r\033[K" : "", name,
            how->text);
    if (there) {
        results.devices[0].failed = *how;
        if (settings->json != NULL && !results_write(settings->json, &results, &why))
            run_complain(NULL, why.text);
        if (settings->csv != NULL && !csv_write(settings->csv, &results, &why))
            run_complain(NULL, why.text);
    }
    results_free(&results);
}

int run_watch(const struct run_settings *settings, int argc, char **argv)
{
    const char **arguments = calloc((size_t)argc + 2, sizeof *arguments);
    char path[256];
    struct fleet_end end;
    struct message how;

    if (arguments == NULL) {
        run_complain(NULL, "no memory");
        return EXIT_FAILED;
    }
    arguments[0] = settings->program;
    memcpy((void *)&arguments[1], (const void *)argv, (size_t)argc * sizeof *arguments);
    /* For what is measured; without it only results of a crash are lost. */
    if (ca_temporary_file(path, sizeof path, ca_temporary_place(), "clattn-bench-"))
        ca_variable_set(RUN_WATCH_SAVE, path);
    ca_interrupts_open();
    fflush(stdout);
    const bool started =
        fleet_child_run(arguments, true, CA_OWN_OUTPUT, settings->silence, &end, &how);
    const bool interrupted = ca_interrupts() > 0;
    ca_interrupts_close();
    free((void *)arguments);
    const bool exited = started && !end.stuck && !end.silent && end.end.death == 0;
    if (started && !exited)
        fleet_end_describe(&end, settings->silence, &how);
    if (!exited && !interrupted)
        salvage(settings, path, &how);
    if (path[0] != '\0')
        remove(path);
    return interrupted ? EXIT_INTERRUPTED : exited ? end.end.status : EXIT_FAILED;
}
