/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench run --mpi: problems by one rank alone and by all ranks, mode by mode, in turns. */
#include "bench/commands/run_request.h"
#include "bench/commands/table.h"
#include "bench/mpi/contest.h"
#include "bench/timing/target.h"
#include "os/host.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices --------------------------------------------------------------------------------- */

/* The n-th of a list, counted around it. */
static void choose(char *choice, size_t bytes, const char *list, int n)
{
    int count = 1;

    for (const char *c = list; *c != '\0'; c++)
        count += *c == ',';
    for (n %= count; n > 0; n--)
        list = strchr(list, ',') + 1;
    snprintf(choice, bytes, "%.*s", (int)strcspn(list, ","), list);
}

/* Opens this rank's device: of a list with commas, or of "all", that of its number on its machine.
 * Collective. */
static bool open_target(const struct ranks *ranks, struct target *target, const char *selector,
                        struct message *why)
{
    char choice[256] = "";
    size_t devices = 0;

    if (selector != NULL && strcmp(selector, "all") == 0) {
        clattn_device_list(NULL, 0, &devices);
        snprintf(choice, sizeof choice, "%zu", (size_t)ranks->local % (devices + (devices == 0)));
    } else if (selector != NULL) {
        choose(choice, sizeof choice, selector, ranks->local);
    }
    const bool ok = target_open(target, selector != NULL ? choice : NULL, why);
    const bool all = ranks_agree(ranks, ok, why);
    if (ok && !all)
        target_close(target);
    return all;
}

/* ---- what all end with ----------------------------------------------------------------------- */

/* Returns 0 if all ranks understood their options, else the exit status of all. Collective. */
static int agree_status(const struct ranks *ranks, int status)
{
    const int mine = status == 0 ? INT_MAX : ranks->rank;
    int first;

    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == INT_MAX)
        return 0;
    MPI_Bcast(&status, 1, MPI_INT, first, MPI_COMM_WORLD);
    if (first > 0 && ranks->rank == 0) /* ranks above 0 print nothing themselves */
        fprintf(stderr, "clattn-bench run: rank %d does not understand its options\n", first);
    return status;
}

/* ---- results ----------------------------------------------------------------------------------- */

/* Every rank's device, for rank 0. Collective. */
static bool name_devices(struct mpi_run *run, struct message *why)
{
    struct device_run *device = run->device;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    struct rank_device mine;
    int length;

    device->rank_devices = calloc((size_t)run->ranks.count, sizeof *device->rank_devices);
    device->ranks = device->rank_devices != NULL ? (size_t)run->ranks.count : 0;
    if (!ranks_agree(&run->ranks,
                     device->ranks > 0 || message_set(why, "no memory for the results"), why))
        return false;
    snprintf(mine.name, sizeof mine.name, "%.120s, driver %.100s", run->target.info->name,
             run->target.info->driver_version);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, device->rank_devices, sizeof mine, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    for (char *tab = strchr(library, '\t'); tab != NULL; tab = strchr(tab, '\t'))
        *tab = ' '; /* MPICH's version text contains tabs */
    snprintf(device->mpi, sizeof device->mpi, "%.*s", (int)strcspn(library, ","), library);
    device->info = *run->target.info;
    device->index = target_index(&run->target);
    return true;
}

static bool save(const struct mpi_run *run, struct message *why)
{
    const char *json = run->request->settings.json;

    return run->ranks.rank > 0 || json == NULL || strcmp(json, "-") == 0 ||
           results_write(json, run->results, why);
}

/* Prints rank 0's table, or why there is none. */
static void show(const struct mpi_run *run, const struct record *record)
{
    const struct record *before = record > run->device->records ? record - 1 : NULL;

    if (run_has_table(&run->request->settings)) {
        table_record(record, before);
        return;
    }
    for (size_t n = 0; n < record->count; n++)
        if (record->outcome[n].state != OUTCOME_MEASURED)
            fprintf(stderr, "clattn-bench run: %.400s: %s: %s\n", record->problem,
                    record->outcome[n].implementation, record->outcome[n].why.text);
}

/* Rank 0 writes what others have no part in; all end alike. */
static bool write_results(const struct mpi_run *run, struct message *why)
{
    const struct run_settings *settings = &run->request->settings;
    bool ok = true;

    if (run->ranks.rank == 0) {
        ca_host_load(run->device->load);
        if (run_has_table(settings))
            table_footer(run->device);
        ok = save(run, why) && (settings->json == NULL || strcmp(settings->json, "-") != 0 ||
                                results_write("-", run->results, why));
    }
    return ranks_agree(&run->ranks, ok, why);
}

/* ---- running ----------------------------------------------------------------------------------- */

/* False with *why "" where only a result is wrong. */
static bool run_items(struct mpi_run *run, const struct items *items, struct message *why)
{
    struct device_run *device = run->device;
    const char *heading = "";
    bool ok = true;

    if (run->ranks.rank == 0 && run_has_table(&run->request->settings))
        table_header(device);
    for (size_t n = 0; n < items->count; n++) {
        struct record *record = &device->records[device->count];
        heading = items->item[n].heading != NULL ? items->item[n].heading : heading;
        if (!contest_item(run, &items->item[n], heading, record, why))
            return false;
        device->count++;
        if (run->ranks.rank == 0)
            show(run, record);
        ok = ranks_number(record_ok(record)) > 0.0 && ok;
        if (!ranks_agree(&run->ranks, save(run, why), why))
            return false;
    }
    why->text[0] = '\0';
    return ok;
}

static bool run_all(struct mpi_run *run, const struct items *items, struct message *why)
{
    run->device = results_add(run->results);
    if (run->device != NULL)
        run->device->records = calloc(items->count, sizeof *run->device->records);
    const bool ok = run->device != NULL && run->device->records != NULL;
    if (!ranks_agree(&run->ranks, ok || message_set(why, "no memory for the results"), why) ||
        !name_devices(run, why))
        return false;
    struct message last;
    const bool ran = run_items(run, items, why), wrote = write_results(run, &last);
    if (ran && !wrote)
        *why = last;
    return ran && wrote;
}

static int run_request(const struct ranks *ranks, const struct request *request,
                       const struct items *items)
{
    struct run_results results;
    struct mpi_run run = {.ranks = *ranks, .request = request, .results = &results};
    struct message why = {""};

    results_begin(&results);
    bool ok = open_target(ranks, &run.target, request->settings.device, &why);
    if (ok) {
        ok = run_all(&run, items, &why);
        target_close(&run.target);
    }
    if (!ok && why.text[0] != '\0')
        run_complain(NULL, why.text);
    results_free(&results);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}

/* Speeds are measured by all ranks together, or by none. Collective. */
static bool speeds_alike(const struct ranks *ranks, const struct request *request,
                         struct message *why)
{
    const int mine = request->mpi.measured;
    int measured;

    MPI_Allreduce(&mine, &measured, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return ranks_agree(ranks,
                       measured == 0 || measured == ranks->count ||
                           message_set(why, "--speed measured is for all ranks or for none"),
                       why);
}

int mpi_run_command(int argc, char **argv)
{
    const struct ranks ranks = ranks_open();
    struct items items = {.item = NULL};
    struct request request;
    struct message why;

    int status = agree_status(&ranks, run_request_read(argc, argv, &request));
    if (status == 0) {
        const bool read = run_request_items(&request, &items, &why);
        if (!ranks_agree(&ranks, read, &why) || !speeds_alike(&ranks, &request, &why))
            status = option_usage("run", why.text);
        else
            status =
                request.list ? run_request_list(&items) : run_request(&ranks, &request, &items);
    } else if (status == 1) {
        status = EXIT_SUCCESS;
    }
    items_free(&items);
    run_request_free(&request);
    return status;
}
