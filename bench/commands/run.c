/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench run: problems timed beside other libraries and the device's measured peaks. */
#include "bench/commands/run_request.h"
#include "bench/commands/start_mpi.h"
#include "bench/fleet/fleet.h"
#include "cli/interrupt.h"
#include "os/environment.h"
#include "os/temporary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_fleet(const struct run_settings *settings)
{
    return settings->device != NULL && fleet_wanted(settings->device);
}

static bool write_json(const struct run_settings *settings, const struct run_results *results)
{
    struct message why;

    return settings->json == NULL || results_write(settings->json, results, &why) ||
           run_complain(NULL, why.text);
}

/* A child process that reads the same command line. */
static struct fleet_child child_of(const struct run_settings *settings, int argc, char **argv)
{
    return (struct fleet_child){.program = settings->program,
                                .arguments = (const char *const *)argv,
                                .num_arguments = (size_t)argc,
                                .output = run_has_table(settings) ? CA_OWN_OUTPUT : CA_NO_FILE,
                                .silence = settings->silence};
}

/* ---- in this process, or one for each device --------------------------------------------------- */

static bool run_fleet(const struct run_settings *settings, int argc, char **argv,
                      struct run_results *results)
{
    const struct fleet fleet = {
        .child = child_of(settings, argc, argv),
        .devices = settings->device,
        .save = option_to_stdout(settings->json) ? NULL : settings->json,
        .quiet = !run_has_table(settings),
    };

    return fleet_run(&fleet, results);
}

static int run_items(const struct run_settings *settings, const struct items *items, int argc,
                     char **argv)
{
    struct run_results results;

    ca_interrupt_catch();
    results_begin(&results);
    bool ok = is_fleet(settings) ? run_fleet(settings, argc, argv, &results)
                                 : run_device(settings, items, &results);
    if (results.count > 0 && option_to_stdout(settings->json))
        ok = write_json(settings, &results) && ok; /* files have been saved before */
    results_free(&results);
    return ca_interrupted() ? EXIT_INTERRUPTED : ok ? EXIT_SUCCESS : EXIT_FAILED;
}

/* One device, or all of a fleet; or the list of what that would be. */
static int run_here(const struct request *request, int argc, char **argv)
{
    struct items items;
    struct message why;
    int status;

    if (!run_request_items(request, &items, &why))
        status = option_usage("run", why.text);
    else if (request->list)
        status = run_request_list(&items);
    else
        status = run_items(&request->settings, &items, argc, argv);
    items_free(&items);
    return status;
}

/* ---- in a child that is watched: a device that hangs holds up nobody for ever ------------------ */

/* Writes the results that a dead child had saved to where the child would have written them. */
static void salvage(const struct run_settings *settings, const char *path,
                    const struct message *how)
{
    struct run_results results;
    struct message why;
    const bool there = results_read(path, &results, &why) && results.count == 1;

    fleet_complain(there ? results.devices[0].info.name : "the run", how);
    if (there) {
        results.devices[0].failed = *how;
        write_json(settings, &results);
    }
    results_free(&results);
}

/* Runs the command line again in a child that has it all to say. One that crashes or hangs is ended
 * and reported in one sentence. */
static int watch(const struct run_settings *settings, int argc, char **argv)
{
    char path[256];
    struct fleet_child child = child_of(settings, argc, argv);
    struct fleet_end end;
    struct message how;

    child.input = true;
    child.output = CA_OWN_OUTPUT;
    /* A file for the results so far; without it, only a crash loses results. */
    if (ca_temporary_file(path, sizeof path, ca_temporary_place(), "clattn-bench-"))
        child.save = path;
    ca_interrupts_open();
    fflush(stdout);
    const bool started = fleet_child_run(&child, &end, &how);
    const bool interrupted = ca_interrupts() > 0;
    ca_interrupts_close();
    const bool exited = started && !end.stuck && !end.silent && end.end.death == 0;
    if (started && !exited)
        fleet_end_describe(&end, settings->silence, &how);
    if (!exited && !interrupted)
        salvage(settings, path, &how);
    if (child.save != NULL)
        remove(path);
    return interrupted ? EXIT_INTERRUPTED : exited ? end.end.status : EXIT_FAILED;
}

/* ------------------------------------------------------------------------------------------------ */

/* Adopts the settings for a child: the parent writes the results of a fleet's devices. */
static void obey_parent(struct run_settings *settings)
{
    const char *device = ca_environment_value(FLEET_DEVICE);

    settings->save = ca_environment_value(FLEET_SAVE);
    if (device != NULL) {
        settings->device = device;
        settings->json = NULL;
    }
}

int run_command(int argc, char **argv)
{
    const bool child = ca_environment_value(PROGRESS_HEARTBEAT) != NULL;
    struct request request;
    struct run_settings *settings = &request.settings;

    if (mpi_wanted(argc, argv))
        return mpi_start(argc, argv);
    int status = run_request_read(argc, argv, &request);
    if (child)
        obey_parent(settings);
    if (status == 1)
        status = EXIT_SUCCESS;
    else if (status == 0 && request.mpi.wanted) /* --mpi was abbreviated: "--mp" */
        status = mpi_start(argc, argv);
    else if (status == 0 && !child && !request.list && !is_fleet(settings) &&
             isfinite(settings->silence))
        status = watch(settings, argc, argv);
    else if (status == 0)
        status = run_here(&request, argc, argv);
    run_request_free(&request);
    return status;
}
