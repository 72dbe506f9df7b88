/* SPDX-License-Identifier: Apache-2.0 */
#include "context/context.h"

clattn_status ca_context_check(const clattn_context *context)
{
    if (!context)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "context is null");
    return context->forks == ca_forks()
               ? CLATTN_SUCCESS
               : ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                         "this context was made before fork(), and this process must make its own");
}

clattn_status ca_context_need_device(const clattn_context *context)
{
    const clattn_status status = ca_context_check(context);

    if (status != CLATTN_SUCCESS)
        return status;
    return context->cl ? CLATTN_SUCCESS
                       : ca_fail(&context->log, CLATTN_NO_DEVICE,
                                 "the profile '%s' stands in for a device: nothing can be run",
                                 context->device.name);
}

void ca_context_retain(clattn_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void clattn_context_release(clattn_context *context)
{
    /* a forked child could wait forever for a thread that it lacks */
    if (!context || context->forks != ca_forks())
        return;
    if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1)
        return;
    context->destroy(context);
}

cl_context clattn_context_opencl(const clattn_context *context)
{
    return context ? context->cl : NULL;
}

const clattn_device_info *clattn_context_device(const clattn_context *context)
{
    return context ? &context->device : NULL;
}

const char *clattn_context_last_error(const clattn_context *context)
{
    return ca_last_error(context ? context->log.owner : 0);
}

size_t clattn_context_builds(const clattn_context *context)
{
    return context ? atomic_load(&context->builds) : 0;
}

void clattn_context_log(const clattn_context *context, const clattn_log_level level,
                        const char *message)
{
    if (context && message)
        ca_log_text(&context->log, level, message);
}
