/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache_directory.h"
#include "base/structs.h"
#include "context/context.h"
#include "device/facts.h"
#include "execute/launch.h"
#include "program/program.h"
#include "program/program_cache.h"
#include "store/override.h"
#include "store/shipped.h"
#include "store/store.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether device is one of cl's. */
static cl_int belongs(cl_context cl, cl_device_id device, int *found)
{
    size_t bytes = 0;
    cl_int err = clGetContextInfo(cl, CL_CONTEXT_DEVICES, 0, NULL, &bytes);

    *found = 0;
    if (err != CL_SUCCESS)
        return err;
    cl_device_id *devices = malloc(bytes ? bytes : 1);
    if (!devices)
        return CL_OUT_OF_HOST_MEMORY;
    err = clGetContextInfo(cl, CL_CONTEXT_DEVICES, bytes, devices, NULL);
    for (size_t n = 0; err == CL_SUCCESS && n < bytes / sizeof *devices; n++)
        *found |= devices[n] == device;
    free(devices);
    return err;
}

/* Fills the facts of a device, which a profile narrows. */
static clattn_status query(clattn_context *ctx, cl_device_id device)
{
    int found;
    const cl_int err = belongs(ctx->cl, device, &found);

    if (err != CL_SUCCESS)
        return ca_fail_cl(&ctx->log, err, "clGetContextInfo(CL_CONTEXT_DEVICES)");
    if (!found)
        return ca_fail(&ctx->log, CLATTN_INVALID_ARGUMENT,
                       "device is not one of the OpenCL context's devices");
    ctx->device.struct_size = sizeof ctx->device;
    const clattn_status status = clattn_device_query(device, &ctx->device);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&ctx->log, status, "the device's facts cannot be queried");
    ca_pointers_find(&ctx->device, &ctx->pointers);
    return CLATTN_SUCCESS;
}

/* Takes a profile over, which may be NULL only if there is a device. */
static clattn_status take_profile(clattn_context *ctx, const clattn_device_info *profile)
{
    char reason[CA_REASON_BYTES];

    clattn_device_info own;

    if (!profile)
        return CLATTN_SUCCESS;
    profile = CA_READ(clattn_device_info, "options->profile", profile, &own, reason);
    if (!profile)
        return ca_fail(&ctx->log, CLATTN_INVALID_ARGUMENT, "%s", reason);
    if (!ca_facts_check(profile, reason, sizeof reason))
        return ca_fail(&ctx->log, CLATTN_INVALID_ARGUMENT, "options->profile: %s", reason);
    ctx->narrowed = 1;
    if (ctx->cl) {
        ca_facts_narrow(&ctx->device, profile);
    } else {
        ctx->device = *profile;
        ctx->device.platform = NULL;
        ctx->device.device = NULL;
    }
    return CLATTN_SUCCESS;
}

/* Checks the facts of the device that every kernel relies on. */
static clattn_status examine(const clattn_context *ctx)
{
    const size_t argument_bytes = ca_most_argument_bytes();

    if (!ctx->device.little_endian)
        return ca_fail(&ctx->log, CLATTN_UNSUPPORTED, "device '%s' is big-endian",
                       ctx->device.name);
    if (ctx->device.opencl_version < 12)
        return ca_fail(&ctx->log, CLATTN_UNSUPPORTED,
                       "device '%s' has '%s', but OpenCL 1.2 is needed", ctx->device.name,
                       ctx->device.device_version);
    if (!ctx->device.compiler_available && (!ctx->cl || !ctx->cache_directory))
        return ca_fail(&ctx->log, CLATTN_NO_COMPILER,
                       "device '%s' has no OpenCL C compiler, and there is no cache of programs",
                       ctx->device.name);
    if (ctx->device.max_parameter_bytes < argument_bytes)
        return ca_fail(&ctx->log, CLATTN_UNSUPPORTED,
                       "device '%s' takes %zu bytes of kernel arguments, but %zu are needed",
                       ctx->device.name, ctx->device.max_parameter_bytes, argument_bytes);
    return CLATTN_SUCCESS;
}

static int open_lock(clattn_context *ctx)
{
    if (!ca_mutex_init(&ctx->lock))
        return 0;
    if (ca_condition_init(&ctx->made))
        return 1;
    ca_mutex_destroy(&ctx->lock);
    return 0;
}

static void close_lock(clattn_context *ctx)
{
    ca_condition_destroy(&ctx->made);
    ca_mutex_destroy(&ctx->lock);
}

/* Opens the parts that choosing uses, and the lock, which comes last. */
static clattn_status open_parts(clattn_context *ctx)
{
    ctx->store = ca_store_create(ctx->cache_directory, &ctx->device, &ctx->log);
    ctx->shipped = ca_shipped_create();
    ctx->counts_kernels = ca_program_binary_is_dear(ctx);
    if (!ctx->store || !ca_override_read(&ctx->log, &ctx->override) || !ctx->shipped ||
        !open_lock(ctx))
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a context");
    return CLATTN_SUCCESS;
}

/* Frees all but the lock and the OpenCL context. */
static void destroy(clattn_context *ctx)
{
    ca_store_destroy(ctx->store);
    free(ctx->override);
    ca_shipped_destroy(ctx->shipped);
    free(ctx->cache_directory);
    free(ctx);
}

/* Finds the callback for errors. It has the same place in every version of the options, and is
 * needed most if struct_size was forgotten in a struct of zeros. If the size is that of no version,
 * the struct is uninitialised and its callback is ignored. */
static struct ca_log log_of(const clattn_context_options *options)
{
    enum { LATER_VERSIONS = 4096 };
    struct ca_log log = ca_log_make();

    if (options &&
        (options->struct_size == 0 || (options->struct_size >= CA_LEAST_clattn_context_options &&
                                       options->struct_size <= LATER_VERSIONS))) {
        log.callback = options->log;
        log.user_data = options->log_user_data;
    }
    return log;
}

/* The release of a context with hundreds of programs must not take minutes. */
enum { END_SECONDS = 10 };

/* Writes programs that the cache does not have yet, and keeps the cache within its limit. */
static void store(clattn_context *ctx)
{
    const size_t left = ca_programs_store(ctx, ctx->end_seconds);

    if (left > 0)
        ca_inform(&ctx->log,
                  "%zu of the context's programs are not stored, since %g seconds were over or "
                  "kernels still ran: later processes compile them again",
                  left, ctx->end_seconds);
    if (atomic_load(&ctx->cache_writes) > 0 && ctx->cache_bytes > 0)
        ca_program_cache_trim(ctx, ctx->cache_bytes);
}

/* The last reference is gone. */
static void end(clattn_context *ctx)
{
    store(ctx);
    ca_programs_release(ctx->programs);
    close_lock(ctx);
    if (ctx->cl)
        clReleaseContext(ctx->cl);
    destroy(ctx);
}

/* Finds the folder for programs and tuning results, and warns if it cannot be the requested one. */
static void open_cache(clattn_context *ctx, const char *given)
{
    char why[3 * CA_REASON_BYTES];
    int refused;

    ctx->cache_directory = ca_cache_directory(given, &refused, why, sizeof why);
    if (refused)
        ca_warn(&ctx->log, "%s", why);
    else if (why[0])
        ca_inform(&ctx->log, "%s", why);
    if (!ca_cache_limit(&ctx->cache_bytes))
        ca_warn(&ctx->log,
                "CLATTN_CACHE_MAX_SIZE is not a number of bytes, as 500M or 2G: the limit is %d MB",
                CA_CACHE_DEFAULT_MEGABYTES);
}

/* The beginning of both ways to make a context: *context is cleared, *options, which may be null,
 * are read. */
static clattn_status check_call(const struct ca_log *log, const clattn_context_options **options,
                                clattn_context_options *own, clattn_context **context)
{
    char why[CA_REASON_BYTES];

    if (!context)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "context is null");
    *context = NULL;
    if (*options && !(*options = CA_READ(clattn_context_options, "options", *options, own, why)))
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s", why);
    return CLATTN_SUCCESS;
}

clattn_status clattn_context_create(cl_context opencl, cl_device_id device,
                                    const clattn_context_options *options, clattn_context **context)
{
    static const clattn_context_options none = {.struct_size = sizeof none};
    const struct ca_log log = log_of(options);
    clattn_context_options own;
    const clattn_status sound = check_call(&log, &options, &own, context);

    if (sound != CLATTN_SUCCESS)
        return sound;
    if (!options)
        options = &none;
    if (!opencl != !device || (!opencl && !options->profile))
        return ca_fail(&log, CLATTN_INVALID_ARGUMENT,
                       "opencl and device must not be null; only with a profile may both be");

    clattn_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return ca_fail(&log, CLATTN_OUT_OF_MEMORY, "no host memory for a context");
    atomic_init(&ctx->references, 1);
    ctx->destroy = end;
    ctx->end_seconds = END_SECONDS;
    atomic_init(&ctx->builds, 0);
    atomic_init(&ctx->builtins_refused, 0);
    atomic_init(&ctx->cache_unwritable, 0);
    atomic_init(&ctx->cache_writes, 0);
    ctx->cl = opencl;
    ctx->log = log;
    ctx->skip_self_checks = options->skip_self_checks;
    ca_forks_watch();
    ctx->forks = ca_forks();
    open_cache(ctx, options->cache_directory);
    clattn_status status = opencl ? query(ctx, device) : CLATTN_SUCCESS;
    if (status == CLATTN_SUCCESS)
        status = take_profile(ctx, options->profile);
    if (status == CLATTN_SUCCESS)
        status = examine(ctx);
    if (status == CLATTN_SUCCESS)
        status = open_parts(ctx);
    if (status != CLATTN_SUCCESS) {
        destroy(ctx);
        return status;
    }
    const cl_int err = opencl ? clRetainContext(opencl) : CL_SUCCESS;
    if (err != CL_SUCCESS) {
        close_lock(ctx);
        destroy(ctx);
        return ca_fail_cl(&log, err, "clRetainContext");
    }
    *context = ctx;
    return CLATTN_SUCCESS;
}

clattn_status clattn_context_trim(clattn_context *context)
{
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    store(context);
    ca_programs_trim(context, 0);
    return CLATTN_SUCCESS;
}

clattn_status clattn_context_clear_cache(clattn_context *context, size_t *removed)
{
    if (removed)
        *removed = 0;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    const struct ca_cache_size before = ca_program_cache_trim(context, ULLONG_MAX),
                               after = ca_program_cache_trim(context, 0);
    if (before.status != CLATTN_SUCCESS || after.status != CLATTN_SUCCESS)
        return ca_fail(&context->log, CLATTN_OUT_OF_MEMORY,
                       "no memory or open files to clear the cache directory %.800s",
                       context->cache_directory);
    if (removed && before.files > after.files)
        *removed = before.files - after.files;
    if (after.files == 0)
        return CLATTN_SUCCESS;
    return ca_fail(&context->log, CLATTN_FILE_ERROR,
                   "%zu programs in the cache directory %.800s cannot be removed", after.files,
                   context->cache_directory);
}

clattn_status clattn_context_create_default(const char *selector,
                                            const clattn_context_options *options,
                                            clattn_context **context)
{
    const struct ca_log log = log_of(options);
    clattn_context_options own;
    clattn_status status = check_call(&log, &options, &own, context);
    cl_device_id device;
    cl_int err;

    if (status != CLATTN_SUCCESS)
        return status;
    status = clattn_device_select(selector, &device);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&log, status, "no OpenCL device could be chosen by '%s'%s",
                       selector && *selector ? selector : "CLATTN_DEVICE or its default",
                       status == CLATTN_OPENCL_ERROR ? ": a driver fails when it is asked" : "");
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&log, err, "clCreateContext");
    status = clattn_context_create(cl, device, options, context);
    clReleaseContext(cl); /* the clattn context holds its own reference */
    return status;
}

void clattn_context_leave(clattn_context *context)
{
    if (!context)
        return;
    store(context);
    ca_first_runs_excuse(&context->first_runs);
}
