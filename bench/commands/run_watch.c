#define _POSIX_C_SOURCE 200809L /* fdopen, mkstemp, setenv, WIFEXITED */
#include "bench/commands/run_watch.h"
#include "bench/commands/options.h"
#include "bench/fleet/fleet_child.h"
#include "bench/records/csv.h"
#include "cli/interrupt.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool run_is_watched(void)
{
    return getenv(PROGRESS_HEARTBEAT) != NULL;
}

/* An empty file for what is measured; "" if there is none, which costs only results of a crash. */
static void make_file(char *path, size_t bytes)
{
    const char *folder = getenv("TMPDIR");

    if (folder == NULL || folder[0] == '\0' || strlen(folder) > bytes - 32)
        folder = "/tmp";
    snprintf(path, bytes, "%s/clattn-bench-XXXXXX", folder);
    const int file = mkstemp(path);
    if (file >= 0)
        close(file);
    else
        path[0] = '\0';
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
    make_file(path, sizeof path);
    if (path[0] != '\0')
        setenv(RUN_WATCH_SAVE, path, 1);
    ca_interrupts_open();
    fflush(stdout);
    const bool started =
        fleet_child_run(arguments, true, STDOUT_FILENO, settings->silence, &end, &how);
    const bool interrupted = ca_interrupts() > 0;
    ca_interrupts_close();
    free((void *)arguments);
    const bool exited = started && !end.stuck && !end.silent && WIFEXITED(end.status);
    if (started && !exited)
        fleet_end_describe(&end, settings->silence, &how);
    if (!exited && !interrupted)
        salvage(settings, path, &how);
    if (path[0] != '\0')
        remove(path);
    return interrupted ? EXIT_INTERRUPTED : exited ? WEXITSTATUS(end.status) : EXIT_FAILED;
}
