/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fleet/fleet_devices.h"
#include "bench/records/results.h"
#include "internal.h"
#include "os/environment.h"
#include "os/interrupt.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VENDORS "/etc/OpenCL/vendors"

static bool fail(const char *what)
{
    fprintf(stderr, "clattn-bench run: %s\n", what);
    return false;
}

/* ---- listing --------------------------------------------------------------------------------- */

static bool is_driver(const char *name)
{
    const char *end = strrchr(name, '.');

    return end != NULL && strcmp(end, ".icd") == 0;
}

/* The driver's file that follows the last one in the alphabet; false if there is none. */
static bool next_driver(const char *folder, char last[256])
{
    struct ca_listing *listing = ca_listing_open(ca_folder_open(folder, true));
    char next[256] = "";

    for (const char *name; listing != NULL && (name = ca_listing_next(listing)) != NULL;)
        if (is_driver(name) && strcmp(name, last) > 0 && (!next[0] || strcmp(name, next) < 0))
            snprintf(next, sizeof next, "%s", name);
    ca_listing_close(listing);
    strcpy(last, next);
    return next[0] != '\0';
}

/* Prints which drivers' files there are, and how to do without one of them. */
static void blame_drivers(const struct message *how)
{
    const char *wish = ca_environment_value("OCL_ICD_VENDORS");
    const char *folder = wish != NULL && wish[0] != '\0' ? wish : VENDORS;
    char driver[256] = "";

    message_say(stderr, "clattn-bench run: listing the devices, which loads every driver, %s%s.",
                strncmp(how->text, "the driver", 10) == 0 ? "failed: " : "", how->text);
    message_say(stderr, "Drivers are named by the files in %s:", folder);
    while (next_driver(folder, driver))
        message_say(stderr, "  %s", driver);
    fputs("To leave one out, copy the others into a folder of their own and name that folder in\n"
          "the environment variable OCL_ICD_VENDORS.\n",
          stderr);
}

static bool read_device(const json_t *object, struct fleet_device *device, struct message *why)
{
    const json_t *index = json_object_get(object, "index");
    const json_t *name = json_object_get(object, "name");
    const json_t *failed = json_object_get(object, "failed");

    if (!json_is_integer(index) || json_integer_value(index) < 0)
        return message_set(why, "a device has no index");
    device->index = (size_t)json_integer_value(index);
    if (json_is_string(failed) && json_is_string(name)) {
        message_set(&device->failed, "%s", json_string_value(failed));
        snprintf(device->info.name, sizeof device->info.name, "%s", json_string_value(name));
        return true;
    }
    return results_device_read(object, &device->info, why);
}

static bool read_devices(ca_file file, struct fleet_devices *devices, struct message *why)
{
    struct ca_file_facts facts = {.bytes = 0};
    json_error_t error;

    ca_file_ask(file, &facts);
    char *text = calloc((size_t)facts.bytes + 1, 1);
    const ptrdiff_t bytes = text != NULL ? ca_file_read(file, text, (size_t)facts.bytes, 0) : 0;
    json_t *list = json_loadb(text, bytes > 0 ? (size_t)bytes : 0, 0, &error);
    free(text);
    const size_t count = json_array_size(list);
    bool ok = true;

    if (list == NULL)
        return message_set(why, "%s in line %d", error.text, error.line);
    if (count > 0)
        devices->device = calloc(count, sizeof *devices->device);
    if (devices->device == NULL)
        ok = message_set(why, "there are none");
    for (; ok && devices->count < count; devices->count += ok)
        ok = read_device(json_array_get(list, devices->count), &devices->device[devices->count],
                         why);
    json_decref(list);
    return ok;
}

bool fleet_devices_list(const struct fleet_child *such, struct fleet_devices *devices)
{
    const char *const arguments[] = {"devices", "--json"};
    const ca_file file = ca_output_open();
    const struct fleet_child child = {.program = such->program,
                                      .arguments = arguments,
                                      .num_arguments = 2,
                                      .output = file,
                                      .silence = such->silence};
    struct message why;
    struct fleet_end end;

    *devices = (struct fleet_devices){NULL, 0, false};
    if (file == CA_NO_FILE)
        return fail("no temporary file for the list of devices");
    bool ok = fleet_child_run(&child, &end, &why) || fail(why.text);
    if (ok && ca_interrupts() > 0) {
        ok = fail("interrupted");
    } else if (ok && !fleet_end_is(&end, EXIT_SUCCESS) && !fleet_end_is(&end, EXIT_FAILURE)) {
        fleet_end_describe(&end, child.silence, &why);
        blame_drivers(&why);
        ok = false;
    } else if (ok) {
        devices->failed = fleet_end_is(&end, EXIT_FAILURE);
        ok = read_devices(file, devices, &why);
        if (!ok && !devices->failed) /* the child itself has said that there are none */
            fprintf(stderr, "clattn-bench run: the list of devices cannot be read: %s\n", why.text);
    }
    ca_file_close(file);
    if (!ok)
        fleet_devices_free(devices);
    return ok;
}

void fleet_devices_free(struct fleet_devices *devices)
{
    free(devices->device);
    *devices = (struct fleet_devices){NULL, 0, false};
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool contains(const char *text, const char *part)
{
    for (; *text != '\0'; text++) {
        size_t n = 0;
        while (part[n] != '\0' &&
               tolower((unsigned char)text[n]) == tolower((unsigned char)part[n]))
            n++;
        if (part[n] == '\0')
            return true;
    }
    return false;
}

/* The device that clattn_device_select() would choose; NULL if there is none. */
static const struct fleet_device *find(const struct fleet_devices *devices, const char *wanted)
{
    const bool number = wanted[0] != '\0' && wanted[strspn(wanted, "0123456789")] == '\0';

    for (size_t n = 0; n < devices->count && wanted[0] != '\0'; n++) {
        const struct fleet_device *device = &devices->device[n];
        if (number ? strtoul(wanted, NULL, 10) == device->index
                   : contains(device->info.name, wanted) || contains(device->info.vendor, wanted) ||
                         contains(device->info.platform_name, wanted))
            return device;
    }
    return NULL;
}

static bool same(const clattn_device_info *a, const clattn_device_info *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->platform_name, b->platform_name) == 0 &&
           strcmp(a->driver_version, b->driver_version) == 0;
}

/* One library may be named by two files, and a machine may have two cards of a kind. */
static void leave_out_doubles(struct fleet_devices *devices, bool quiet)
{
    size_t kept = 0;

    for (size_t n = 0; n < devices->count; n++) {
        size_t twin = 0;
        while (twin < kept && !same(&devices->device[twin].info, &devices->device[n].info))
            twin++;
        if (twin == kept)
            devices->device[kept++] = devices->device[n];
        else if (!quiet)
            fprintf(stderr,
                    "clattn-bench run: device %zu is left out: it is the same as device %zu, "
                    "%.60s\n",
                    devices->device[n].index, devices->device[twin].index,
                    devices->device[n].info.name);
    }
    devices->count = kept;
}

/* The items of `list`, which is taken apart. */
static bool choose(struct fleet_devices *devices, char *list, struct fleet_devices *chosen)
{
    for (char *item = list, *next; item != NULL; item = next) {
        next = strchr(item, ',');
        if (next != NULL)
            *next++ = '\0';
        const struct fleet_device *device = find(devices, item);
        if (device == NULL) {
            message_say(stderr,
                        "clattn-bench run: no OpenCL device matches '%s'; 'clattn-bench devices' "
                        "lists them",
                        item);
            return false;
        }
        size_t n = 0;
        while (n < chosen->count && chosen->device[n].index != device->index)
            n++;
        if (n == chosen->count) /* named for the first time */
            chosen->device[chosen->count++] = *device;
    }
    return true;
}

bool fleet_devices_choose(struct fleet_devices *devices, const char *wanted, bool quiet)
{
    struct fleet_devices chosen = {NULL, 0, devices->failed};

    if (strcmp(wanted, "all") == 0) {
        leave_out_doubles(devices, quiet);
        return true;
    }
    char *list = ca_text_copy(wanted);
    chosen.device = calloc(devices->count, sizeof *chosen.device);
    const bool ok = list != NULL && chosen.device != NULL ? choose(devices, list, &chosen)
                                                          : fail("no memory for the devices");
    free(list);
    fleet_devices_free(devices);
    *devices = chosen;
    return ok;
}
