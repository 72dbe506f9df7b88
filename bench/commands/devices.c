/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench devices: every OpenCL device with the facts that matter. */
#include "bench/commands/options.h"
#include "bench/records/results.h"
#include "bench/timing/target.h"
#include "cli/terminal/table.h"
#include "internal.h"
#include "os/environment.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "Usage: clattn-bench devices [--json]\n"
    "Lists every OpenCL device by the index that --device and CLATTN_DEVICE take; * marks the\n"
    "one that is used if nothing is said.\n"
    "  --json  print a JSON array instead\n"
    "A device whose driver fails is listed with the reason (\"failed\" in JSON).\n"
    "Exit status: 0 all is well, 1 there is no device or one fails, 2 usage.\n";

/* Returns false, for a function that fails. */
static bool complain(const char *format, ...)
{
    va_list arguments;
    char text[1024];

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    message_say(stderr, "clattn-bench devices: %s", text);
    return false;
}

/* A line below the device's name, or several on a narrow terminal. */
static void print_fact(const char *title, const char *format, ...)
{
    enum { INDENTATION = 15 };
    va_list arguments;
    char text[1024];

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("     %-*s", INDENTATION - 5, title);
    ca_print_wrapped(stdout, INDENTATION, "%s", text);
}

static void print_text(size_t index, const clattn_device_info *d, bool chosen)
{
    printf("%c%2zu  %s (%s)\n", chosen ? '*' : ' ', index, d->name, target_type_name(d->type));
    print_fact("platform", "%s, %s", d->platform_name, d->platform_version);
    print_fact("driver", "%s by %s; OpenCL %u.%u, OpenCL C %u.%u%s", d->driver_version, d->vendor,
               d->opencl_version / 10, d->opencl_version % 10, d->opencl_c_version / 10,
               d->opencl_c_version % 10, d->compiler_available ? "" : ", no compiler");
    print_fact("compute", "%u units, f32 vectors of %u, work-groups up to %zu, f16 %s, f64 %s",
               d->compute_units, d->vector_width_float, d->max_work_group_size,
               d->fp16 ? "yes" : "storage only", d->fp64 ? "yes" : "no");
    print_fact("memory", "%.1f GiB, allocations up to %.1f GiB, local %llu KiB (%s), %u bits",
               (double)d->global_memory_bytes / (1 << 30),
               (double)d->max_allocation_bytes / (1 << 30),
               (unsigned long long)d->local_memory_bytes / 1024,
               d->local_memory_dedicated ? "dedicated" : "part of global", d->address_bits);
}

/* The facts of a device, or why they are not known. */
struct found {
    clattn_device_info info;
    struct message failed; /* "" if all is known; else the name may be, too. */
};

static void ask(cl_device_id device, struct found *found)
{
    found->info = (clattn_device_info){.struct_size = sizeof found->info};
    found->failed.text[0] = '\0';
    const clattn_status status = clattn_device_query(device, &found->info);
    if (status == CLATTN_SUCCESS)
        return;
    message_set(&found->failed, "its driver fails when it is asked for the device's facts: %s",
                clattn_status_string(status));
    char *const name = found->info.name;
    if (clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof found->info.name - 1, name, NULL) !=
        CL_SUCCESS)
        snprintf(name, sizeof found->info.name, "a device without a name");
}

static void print_found(size_t index, const struct found *found, bool chosen)
{
    if (found->failed.text[0] == '\0') {
        print_text(index, &found->info, chosen);
        return;
    }
    printf("%c%2zu  %s\n", chosen ? '*' : ' ', index, found->info.name);
    print_fact("failed", "%s", found->failed.text);
}

static void add_found(size_t index, const struct found *found, bool chosen, json_t *list)
{
    const bool failed = found->failed.text[0] != '\0';
    json_t *object =
        failed ? json_pack("{s:s, s:s}", "name", found->info.name, "failed", found->failed.text)
               : results_device(&found->info);

    json_object_set_new(object, "index", json_integer((json_int_t)index));
    json_object_set_new(object, "default", json_boolean(chosen));
    json_array_append_new(list, object);
}

/* Prints one device, or adds it to `list` if there is one. False if its driver fails. */
static bool show(size_t index, cl_device_id device, cl_device_id chosen, json_t *list)
{
    struct found found;

    ask(device, &found);
    ca_make_printable(found.info.name);
    if (list == NULL)
        print_found(index, &found, device == chosen);
    else
        add_found(index, &found, device == chosen, list);
    if (found.failed.text[0] != '\0')
        complain("device %zu, %s: %s", index, found.info.name, found.failed.text);
    return found.failed.text[0] == '\0';
}

/* The devices, to be freed by the caller; NULL without any, which *status says why. */
static cl_device_id *list_devices(size_t *count, clattn_status *status)
{
    cl_device_id *devices = NULL;

    *status = clattn_device_list(NULL, 0, count);
    if (*status != CLATTN_SUCCESS)
        return NULL;
    const size_t capacity = *count;
    devices = calloc(capacity, sizeof *devices);
    *status = devices != NULL ? clattn_device_list(devices, capacity, count) : CLATTN_OUT_OF_MEMORY;
    if (*status == CLATTN_SUCCESS && *count <= capacity)
        return devices;
    *status = *status == CLATTN_SUCCESS ? CLATTN_OPENCL_ERROR : *status;
    free(devices);
    return NULL;
}

/* Returns false if a platform cannot say which devices it has: none of them is listed. */
static bool check_platforms(void)
{
    cl_platform_id platforms[64];
    cl_uint count = 0;
    bool ok = true;

    if (clGetPlatformIDs(sizeof platforms / sizeof *platforms, platforms, &count) != CL_SUCCESS)
        return true; /* there is none, or the list of devices has said it */
    for (cl_uint n = 0; n < count && n < sizeof platforms / sizeof *platforms; n++) {
        char name[128] = "";
        cl_uint devices;
        const cl_int err = clGetDeviceIDs(platforms[n], CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
        if (err == CL_SUCCESS || err == CL_DEVICE_NOT_FOUND)
            continue;
        clGetPlatformInfo(platforms[n], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        ok = complain("the driver '%s' fails when it is asked for its devices: clGetDeviceIDs "
                      "returned %d",
                      name, (int)err);
    }
    return ok;
}

/* The device that is used if nothing is said; false if that cannot be found out. */
static bool find_chosen(cl_device_id *chosen)
{
    const clattn_status status = clattn_device_select(NULL, chosen);
    const char *wish = ca_environment_value("CLATTN_DEVICE");

    if (status == CLATTN_NO_DEVICE &&
        wish != NULL) /* the list of devices follows, which helps to correct it */
        complain("CLATTN_DEVICE, which is '%s', matches none of them", wish);
    else if (status != CLATTN_SUCCESS)
        return complain("which device is used if nothing is said cannot be found out: %s",
                        clattn_status_string(status));
    return true;
}

static int no_devices(clattn_status status)
{
    if (status == CLATTN_NO_DEVICE)
        complain("there is no OpenCL device; on Debian and Ubuntu the package pocl-opencl-icd "
                 "makes the CPU one");
    else
        complain("the devices cannot be listed, though there is a driver: %s",
                 clattn_status_string(status));
    return EXIT_FAILED;
}

/* All of them, as text or as JSON. */
static int list_all(bool json)
{
    clattn_status status;
    cl_device_id chosen = NULL;
    size_t count;

    bool ok = check_platforms();
    cl_device_id *devices = list_devices(&count, &status);
    if (devices == NULL)
        return no_devices(status);
    ok = find_chosen(&chosen) && ok;
    json_t *list = json ? json_array() : NULL;
    for (size_t n = 0; n < count; n++)
        ok = show(n, devices[n], chosen, list) && ok;
    if (list != NULL) {
        json_dumpf(list, stdout, JSON_INDENT(1));
        putchar('\n');
    }
    json_decref(list);
    free(devices);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}

int devices_command(int argc, char **argv)
{
    bool json = false;
    const struct command_option options[] = {{.name = "json", .flag = &json}, {.name = NULL}};
    const int stop = command_line_read(argc, argv, help, options);

    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    if (optind < argc)
        return option_usage("devices", "takes no further arguments");
    return list_all(json);
}
