/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/target.h"
#include "cli/terminal/table.h"
#include "os/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_log(clattn_log_level level, const char *text, void *user_data)
{
    struct target *target = user_data;

    if (level == CLATTN_LOG_ERROR)
        message_set(&target->log, "%s", text);
    else
        ca_print_log("clattn-bench", level, text);
}

static bool no_device(const char *selector, struct message *why)
{
    const char *wanted = selector != NULL ? selector : ca_environment_value("CLATTN_DEVICE");

    if (wanted == NULL || wanted[0] == '\0')
        return message_set(why, "there is no OpenCL device: no driver is installed, none has a "
                                "device, or OCL_ICD_VENDORS hides it");
    return message_set(why,
                       "no OpenCL device matches %s'%.200s'; 'clattn-bench devices' lists them",
                       selector != NULL ? "" : "CLATTN_DEVICE, which is ", wanted);
}

bool target_open(struct target *target, const char *selector, struct message *why)
{
    return target_open_narrowed(target, selector, NULL, why);
}

bool target_open_narrowed(struct target *target, const char *selector,
                          const clattn_device_info *profile, struct message *why)
{
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = on_log, .log_user_data = target, .profile = profile};
    cl_int err;

    memset(target, 0, sizeof *target);
    clattn_status status = clattn_context_create_default(selector, &options, &target->context);
    if (status == CLATTN_NO_DEVICE)
        return no_device(selector, why);
    if (status != CLATTN_SUCCESS)
        return message_set(why, "%s: %s", clattn_status_string(status), target->log.text);
    target->info = clattn_context_device(target->context);
    target->queue = clCreateCommandQueue(clattn_context_opencl(target->context),
                                         target->info->device, CL_QUEUE_PROFILING_ENABLE, &err);
    if (err == CL_SUCCESS)
        return true;
    target->queue = NULL;
    target_close(target);
    return message_set(why, "clCreateCommandQueue failed with %d", err);
}

void target_close(struct target *target)
{
    if (target->queue != NULL)
        clReleaseCommandQueue(target->queue);
    clattn_context_release(target->context);
    memset(target, 0, sizeof *target);
}

size_t target_index(const struct target *target)
{
    cl_device_id devices[64];
    size_t count = 0, index = 0;

    clattn_device_list(devices, sizeof devices / sizeof *devices, &count);
    count = count < 64 ? count : 64;
    while (index < count && devices[index] != target->info->device)
        index++;
    return index;
}

const char *target_type_name(cl_device_type type)
{
    return type & CL_DEVICE_TYPE_GPU           ? "gpu"
           : type & CL_DEVICE_TYPE_CPU         ? "cpu"
           : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
                                               : "other";
}
