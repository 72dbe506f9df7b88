/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench run: problems timed beside other libraries and the device's measured peaks. */
#include "bench/commands/run_request.h"
#include "bench/commands/run_watch.h"
#include "bench/commands/start_mpi.h"
#include "bench/fleet/fleet.h"
#include "bench/records/csv.h"
#include "cli/interrupt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_fleet(const struct run_settings *settings)
{
    return settings->device != NULL && fleet_wanted(settings->device);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Whatever was asked for, but for the devices and where results go. */
static size_t list_arguments(const struct request *request, const char **list)
{
    const clattn_plan_options *plan = &request->settings.plan;
    const struct {
        const char *option;
        const char *value; /* NULL: was not given. */
        bool alone;        /* Was given, and takes no value. */
    } options[] = {
        {"--family", plan->family, false},
        {"--tunables", plan->tunables, false},
        {"--untuned", NULL, (plan->flags & CLATTN_PLAN_UNTUNED) != 0},
        {"--known-only", NULL, (plan->flags & CLATTN_PLAN_KNOWN_ONLY) != 0},
        {"--filter", request->filter, false},
        {"--peers", request->peers, false},
        {"--repeat", request->repeat, false},
        {"--patience", request->patience, false},
        {"--no-first-call", NULL, request->settings.no_cold_start},
        {"--quiet", NULL, request->settings.quiet},
    };
    size_t count = 0;

    for (size_t n = 0; n < sizeof options / sizeof *options; n++) {
        if (options[n].alone || options[n].value != NULL)
            list[count++] = options[n].option;
        if (options[n].value != NULL)
            list[count++] = options[n].value;
    }
    list[count++] = "--";
    for (int n = 0; n < request->count; n++)
        list[count++] = request->what[n];
    return count;
}

#define MOST_OPTIONS 32 /* In that list. */

static bool run_fleet(const struct request *request, struct run_results *results)
{
    const struct run_settings *settings = &request->settings;
    const bool save = settings->json != NULL && strcmp(settings->json, "-") != 0;
    const char **arguments = calloc((size_t)request->count + MOST_OPTIONS, sizeof *arguments);

    if (arguments == NULL)
        return run_complain(NULL, "no memory");
    const struct fleet fleet = {
        .program = settings->program,
        .arguments = arguments,
        .num_arguments = list_arguments(request, arguments),
        .devices = settings->device,
        .save = save ? settings->json : NULL,
        .quiet = !run_has_table(settings),
        .silence = settings->silence,
    };
    const bool ok = fleet_run(&fleet, results);
    free((void *)arguments);
    return ok;
}

/* What is written once, at the end. */
static bool write_results(const struct run_settings *settings, const struct run_results *results)
{
    struct message why;

    if (settings->json != NULL && strcmp(settings->json, "-") == 0 &&
        !results_write("-", results, &why))
        return run_complain(NULL, why.text);
    return settings->csv == NULL || csv_write(settings->csv, results, &why) ||
           run_complain(NULL, why.text);
}

static int run_request(const struct request *request, const struct items *items)
{
    const struct run_settings *settings = &request->settings;
    struct run_results results;

    ca_interrupt_catch();
    results_begin(&results);
    bool ok =
        is_fleet(settings) ? run_fleet(request, &results) : run_device(settings, items, &results);
    if (results.count > 0)
        ok = write_results(settings, &results) && ok;
    results_free(&results);
    return ca_interrupted() ? EXIT_INTERRUPTED : ok ? EXIT_SUCCESS : EXIT_FAILED;
}

/* One device, or all of a fleet, by this process; or the list of what that would be. */
static int run_here(const struct request *request)
{
    struct items items;
    struct message why;
    int status;

    if (run_request_items(request, &items, &why))
        status = request->list ? run_request_list(&items) : run_request(request, &items);
    else
        status = option_usage("run", why.text);
    items_free(&items);
    return status;
}

int run_command(int argc, char **argv)
{
    const bool child = run_is_watched();
    struct request request;
    const struct run_settings *settings = &request.settings;

    if (mpi_wanted(argc, argv))
        return mpi_start(argc, argv);
    int status = run_request_read(argc, argv, &request);
    request.settings.save = child ? getenv(RUN_WATCH_SAVE) : NULL;
    if (status == 1)
        status = EXIT_SUCCESS;
    else if (status == 0 && request.mpi.wanted) /* in other letters: "--mp" */
        status = mpi_start(argc, argv);
    else if (status == 0 && !child && !request.list && !is_fleet(settings) &&
             isfinite(settings->silence))
        status = run_watch(settings, argc, argv);
    else if (status == 0)
        status = run_here(&request);
    run_request_free(&request);
    return status;
}
