/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fleet/fleet.h"
#include "bench/fleet/fleet_devices.h"
#include "os/interrupt.h"
#include "os/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(const char *what)
{
    fprintf(stderr, "clattn-bench run: %s\n", what);
    return false;
}

bool fleet_wanted(const char *devices)
{
    return strcmp(devices, "all") == 0 || strchr(devices, ',') != NULL;
}

/* ---- a device -------------------------------------------------------------------------------- */

/* Takes over the results that the child wrote, if they are one device's; else only what was known
 * before. */
static bool take_over(const char *file, const struct fleet_device *device, struct device_run *run,
                      struct message *why)
{
    struct run_results read;
    bool ok = results_read(file, &read, why);

    if (ok && read.count != 1)
        ok = message_set(why, "it wrote results of %zu devices", read.count);
    if (ok) {
        *run = read.devices[0];
        read.count = 0; /* *run owns the records now */
    }
    results_free(&read);
    if (!ok)
        run->info = device->info;
    run->index = device->index;
    return ok;
}

/* Runs one device; false if something went wrong with it, which its row says then. */
static bool run_device(const struct fleet *fleet, const struct fleet_device *device,
                       const char *file, struct run_results *results)
{
    struct device_run *run = results_add(results);
    struct fleet_child child = fleet->child;
    char index[24];
    struct message failed, unread;
    struct fleet_end end;
    struct ca_file_facts facts;

    if (run == NULL)
        return fail("no memory for the results");
    if (device->failed.text[0] != '\0') {
        run->info = device->info;
        run->index = device->index;
        run->failed = device->failed;
        return false; /* the list has said it */
    }
    snprintf(index, sizeof index, "%zu", device->index);
    child.device = index;
    child.save = file;
    fflush(stdout);
    const bool started = fleet_child_run(&child, &end, &failed);
    const bool there = started && ca_file_follow(file, &facts);
    const bool read = take_over(file, device, run, &unread);
    const bool good = started && fleet_end_is(&end, EXIT_SUCCESS);
    if (ca_interrupts() > 0) {
        run->interrupted = true;
        return false;
    }
    const bool said = run->failed.text[0] != '\0'; /* the child itself has said why it failed */
    if (!started)
        run->failed = failed;
    else if (!good && !fleet_end_is(&end, EXIT_FAILURE))
        fleet_end_describe(&end, child.silence, &run->failed);
    else if (there && !read)
        message_set(&run->failed, "its results cannot be read: %.400s", unread.text);
    else if (!there)
        message_set(&run->failed, "ended before it had results");
    if (run->failed.text[0] != '\0' && !said)
        fleet_complain(run->info.name, &run->failed);
    return good && run->failed.text[0] == '\0';
}

/* ---- all devices ----------------------------------------------------------------------------- */

static void announce(const struct fleet_devices *devices, size_t n)
{
    if (n > 0)
        puts(""); /* between two tables */
    fflush(stdout);
    fprintf(stderr, "clattn-bench run: device %zu of %zu: %.60s\n", n + 1, devices->count,
            devices->device[n].info.name);
}

static bool save(const struct fleet *fleet, const struct run_results *results)
{
    struct message why;

    return fleet->save == NULL || results_write(fleet->save, results, &why) || fail(why.text);
}

static bool run_devices(const struct fleet *fleet, const struct fleet_devices *devices,
                        const char *folder, struct run_results *results)
{
    char file[288];
    bool ok = true;

    for (size_t n = 0; n < devices->count && ca_interrupts() == 0; n++) {
        if (!fleet->quiet)
            announce(devices, n);
        snprintf(file, sizeof file, "%s/%zu.json", folder, devices->device[n].index);
        ok = run_device(fleet, &devices->device[n], file, results) && ok;
        ok = save(fleet, results) && ok;
    }
    return ok && ca_interrupts() == 0;
}

/* Makes a folder for the children's files. */
static bool make_folder(char *path, size_t bytes)
{
    if (ca_temporary_folder(path, bytes, ca_temporary_place(), "clattn-bench-"))
        return true;
    message_say(stderr, "clattn-bench run: no folder for the children's results in %s: %s",
                ca_temporary_place(), strerror(errno));
    return false;
}

bool fleet_run(const struct fleet *fleet, struct run_results *results)
{
    struct fleet_devices devices = {NULL, 0, false};
    char folder[256];
    bool ok = false;

    results_begin(results);
    ca_interrupts_open();
    if (fleet_devices_list(&fleet->child, &devices) &&
        fleet_devices_choose(&devices, fleet->devices, fleet->quiet) &&
        make_folder(folder, sizeof folder)) {
        ok = run_devices(fleet, &devices, folder, results) && !devices.failed;
        ca_folder_remove(folder); /* a child that died in writing leaves more than results */
    }
    fleet_devices_free(&devices);
    ca_interrupts_close();
    return ok;
}
