/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding it ------------------------------------------------------------------------------ */

static bool shares_memory(cl_device_id device)
{
    cl_bool shares = CL_FALSE;

    return clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof shares, &shares, NULL) ==
               CL_SUCCESS &&
           shares;
}

/* The chosen device or, unless CLATTN_DEVICE chooses it, one that shares memory in place of one that
 * does not. */
static cl_device_id find_device(const struct host *host)
{
    const char *wish = getenv("CLATTN_DEVICE");
    cl_device_id device = NULL, devices[16];
    size_t count = 0;

    const clattn_status status = clattn_device_select(NULL, &device);
    if (status != CLATTN_SUCCESS) {
        host_log(host, GGML_LOG_LEVEL_WARN, "no OpenCL device (%s): attention stays with ggml",
                 clattn_status_string(status));
        return NULL;
    }
    if (shares_memory(device) || (wish != NULL && wish[0] != '\0'))
        return device;
    clattn_device_list(devices, sizeof devices / sizeof *devices, &count);
    for (size_t n = 0; n < count && n < sizeof devices / sizeof *devices; n++)
        if (shares_memory(devices[n]))
            return devices[n];
    return device;
}

void device_open(struct device *device, const struct host *host)
{
    clattn_device_info info = {.struct_size = sizeof info};

    *device = (struct device){.host = host};
    pthread_mutex_init(&device->mutex, NULL);
    device->id = find_device(host);
    if (device->id == NULL || clattn_device_query(device->id, &info) != CLATTN_SUCCESS) {
        device->id = NULL;
        return;
    }
    snprintf(device->description, sizeof device->description, "%s", info.name);
    device->shares_memory = shares_memory(device->id);
    if (!device->shares_memory)
        host_log(host, GGML_LOG_LEVEL_INFO,
                 "%s has memory of its own: tensors are copied to it and back, where attention is "
                 "measured to be faster with that than ggml's",
                 device->description);
}

/* ---- its context ----------------------------------------------------------------------------- */

static void log_sentence(clattn_log_level level, const char *message, void *user_data)
{
    static const enum ggml_log_level levels[] = {[CLATTN_LOG_ERROR] = GGML_LOG_LEVEL_ERROR,
                                                 [CLATTN_LOG_WARNING] = GGML_LOG_LEVEL_WARN,
                                                 [CLATTN_LOG_INFO] = GGML_LOG_LEVEL_INFO,
                                                 [CLATTN_LOG_DETAIL] = GGML_LOG_LEVEL_DEBUG};

    host_log(user_data, levels[level], "%s", message);
}

/* With the mutex held. */
static clattn_context *open_context(struct device *device)
{
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = log_sentence, .log_user_data = (void *)device->host};
    cl_int error = CL_SUCCESS;

    if (device->context != NULL)
        return device->context;
    cl_context opencl = clCreateContext(NULL, 1, &device->id, NULL, NULL, &error);
    const clattn_status status =
        error != CL_SUCCESS ? CLATTN_OPENCL_ERROR
                            : clattn_context_create(opencl, device->id, &options, &device->context);
    if (error == CL_SUCCESS)
        clReleaseContext(opencl); /* clattn has retained it */
    if (status != CLATTN_SUCCESS)
        host_log(device->host, GGML_LOG_LEVEL_WARN, "no context on %s: %s", device->description,
                 clattn_status_string(status));
    return device->context;
}

clattn_context *device_acquire(struct device *device)
{
    pthread_mutex_lock(&device->mutex);
    clattn_context *context = open_context(device);
    device->backends += context != NULL;
    pthread_mutex_unlock(&device->mutex);
    return context;
}

void device_release(struct device *device)
{
    clattn_context *last = NULL;

    pthread_mutex_lock(&device->mutex);
    if (--device->backends == 0) {
        last = device->context;
        device->context = NULL;
    }
    pthread_mutex_unlock(&device->mutex);
    clattn_context_release(last);
}

size_t device_programs(struct device *device)
{
    pthread_mutex_lock(&device->mutex);
    const size_t programs = clattn_context_builds(device->context);
    pthread_mutex_unlock(&device->mutex);
    return programs;
}

/* ---- what it can do -------------------------------------------------------------------------- */

/* With the mutex held. */
static const struct verdict *known_verdict(const struct device *device, const struct shape *shape)
{
    const size_t count =
        device->num_verdicts < MOST_VERDICTS ? device->num_verdicts : MOST_VERDICTS;

    for (size_t n = 0; n < count; n++)
        if (memcmp(&device->verdicts[n].shape, shape, sizeof *shape) == 0)
            return &device->verdicts[n];
    return NULL;
}

/* With the mutex held. */
static bool ask(struct device *device, const struct shape *shape)
{
    const clattn_context *context = open_context(device);
    struct verdict *verdict = &device->verdicts[device->num_verdicts++ % MOST_VERDICTS];
    clattn_problem problem;

    operation_problem(shape, &problem);
    *verdict = (struct verdict){.shape = *shape};
    verdict->supported =
        context != NULL && clattn_plan_supports(context, &problem, NULL) == CLATTN_SUCCESS;
    return verdict->supported;
}

bool device_supports(struct device *device, const struct ggml_tensor *node)
{
    struct operation operation;

    if (operation_read(device->host, node, &operation) != NULL)
        return false;
    pthread_mutex_lock(&device->mutex);
    const struct verdict *known = known_verdict(device, &operation.shape);
    const bool supported = known != NULL ? known->supported : ask(device, &operation.shape);
    pthread_mutex_unlock(&device->mutex);
    return supported;
}
