/* clattn-bench devices: every OpenCL device with the facts that matter. */
#include "options.h"
#include "results.h"
#include "target.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "Usage: clattn-bench devices [--json]\n"
    "Lists every OpenCL device by the index that --device and CLATTN_DEVICE take; * marks the\n"
    "one that is used if nothing is said.\n"
    "  --json  print a JSON array instead\n";

static void print_text(size_t index, const clattn_device_info *d, bool chosen)
{
    printf("%c%2zu  %s (%s)\n", chosen ? '*' : ' ', index, d->name, target_type_name(d->type));
    printf("     platform  %s, %s\n", d->platform_name, d->platform_version);
    printf("     driver    %s by %s; OpenCL %u.%u, OpenCL C %u.%u%s\n", d->driver_version,
           d->vendor, d->opencl_version / 10, d->opencl_version % 10, d->opencl_c_version / 10,
           d->opencl_c_version % 10, d->compiler_available ? "" : ", no compiler");
    printf("     compute   %u units, f32 vectors of %u, work-groups up to %zu, f16 %s, f64 %s\n",
           d->compute_units, d->vector_width_float, d->max_work_group_size,
           d->fp16 ? "yes" : "storage only", d->fp64 ? "yes" : "no");
    printf("     memory    %.1f GiB, allocations up to %.1f GiB, local %llu KiB (%s), %u bits\n",
           (double)d->global_memory_bytes / (1 << 30), (double)d->max_allocation_bytes / (1 << 30),
           (unsigned long long)d->local_memory_bytes / 1024,
           d->local_memory_dedicated ? "dedicated" : "part of global", d->address_bits);
}

/* Prints one device, or adds it to `list` if there is one. */
static void show(size_t index, cl_device_id device, cl_device_id chosen, json_t *list)
{
    clattn_device_info info = {.struct_size = sizeof info};
    const clattn_status status = clattn_device_query(device, &info);

    if (status != CLATTN_SUCCESS) {
        fprintf(stderr, "clattn-bench devices: device %zu: %s\n", index,
                clattn_status_string(status));
    } else if (list == NULL) {
        print_text(index, &info, device == chosen);
    } else {
        json_t *object = results_device(&info);
        json_object_set_new(object, "index", json_integer((json_int_t)index));
        json_object_set_new(object, "default", json_boolean(device == chosen));
        json_array_append_new(list, object);
    }
}

/* The devices, to be freed by the caller; NULL if there are none. */
static cl_device_id *list_devices(size_t *count)
{
    cl_device_id *devices = NULL;

    if (clattn_device_list(NULL, 0, count) == CLATTN_SUCCESS)
        devices = calloc(*count, sizeof *devices);
    if (devices != NULL && clattn_device_list(devices, *count, count) != CLATTN_SUCCESS) {
        free(devices);
        devices = NULL;
    }
    return devices;
}

int devices_command(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return EXIT_SUCCESS;
        }
        if (option != 'j')
            return option_usage("devices", "");
        json = true;
    }
    if (optind < argc)
        return option_usage("devices", "takes no further arguments");

    size_t count;
    cl_device_id chosen, *devices = list_devices(&count);
    if (devices == NULL) {
        fputs("clattn-bench devices: there is no OpenCL device; on Debian and Ubuntu the package "
              "pocl-opencl-icd makes the CPU one\n",
              stderr);
        return EXIT_FAILED;
    }
    clattn_device_select(NULL, &chosen);
    json_t *list = json ? json_array() : NULL;
    for (size_t n = 0; n < count; n++)
        show(n, devices[n], chosen, list);
    if (list != NULL) {
        json_dumpf(list, stdout, JSON_INDENT(1));
        putchar('\n');
    }
    json_decref(list);
    free(devices);
    return EXIT_SUCCESS;
}
