/* SPDX-License-Identifier: Apache-2.0 */
/** @file context.h  One OpenCL context and one of its devices, with the programs built for it. @ingroup preparing */
#ifndef CLATTN_CONTEXT_H
#define CLATTN_CONTEXT_H

#include <clattn/device.h>
#include <clattn/export.h>
#include <clattn/status.h>

CLATTN_BEGIN

/**
 * Shared by any number of threads. The global state is a count of forks, and on PoCL a list of running kernels, while
 * programs wait to be stored.
 *
 * After fork() the child cannot use a context or plan that was made before: drivers keep threads and connections
 * that a child does not inherit, and a lock that another thread held stays locked. What would build, enqueue or look
 * into what was tuned returns CLATTN_INVALID_ARGUMENT there, with a sentence, and a release gives nothing back. The child
 * must not use OpenCL objects of before either. exec(), or a child that is made before the first call of this library or
 * of OpenCL and makes a context of its own, is safe. The library itself never forks. What processes
 * share is the cache directory, in which many may read and write at a time.
 *
 * In memory a context keeps the programs that its plans use, and up to 128 that no plan uses any more, for the next one
 * that wants them: of more, those go first that were used longest ago. On PoCL a program takes some 1.2 MB.
 * clattn_context_trim() lets all of them go.
 */
typedef struct clattn_context clattn_context;

/** How much a sentence of the log matters: the lower, the more. */
typedef enum clattn_log_level {
    CLATTN_LOG_ERROR = 0,   /**< A call failed; this says why. */
    CLATTN_LOG_WARNING = 1, /**< Something was not as it should be, and was worked around. */
    CLATTN_LOG_INFO = 2,    /**< What is going on: a program is being compiled, which may take
                                 seconds, and why. */
    CLATTN_LOG_DETAIL = 3   /**< What few want to know, such as a compiler's whole log. */
} clattn_log_level;

/**
 * Receives one sentence for a person, without a newline (a build log may hold newlines). Called
 * in the thread of the failing call; may be called by several threads at once. It must not call
 * clattn with the same context.
 */
typedef void (*clattn_log_callback)(clattn_log_level level, const char *message, void *user_data);

/** What a context is made with. All but struct_size may be 0. */
typedef struct clattn_context_options {
    size_t struct_size;      /**< sizeof(clattn_context_options). */
    clattn_log_callback log; /**< NULL: the environment variable CLATTN_LOG (error, warning, info or
                                  detail) has sentences of that level and above printed to stderr;
                                  otherwise nothing is. Errors can be had by
                                  clattn_context_last_error(), with or without a callback. */
    void *log_user_data;     /**< Passed to @ref log; borrowed, must outlive the context. */
    int skip_self_checks;    /**< Not 0: programs are used without the small problem that each must
                                  solve first (see clattn_plan_create()). For drivers known to be right. */
    const char
        *cache_directory; /**< Where built programs are kept for the next process; read during
                                      the call only. NULL: $CLATTN_CACHE_DIR, else
                                      $XDG_CACHE_HOME/clattn if that is an absolute path, else
                                      $HOME/.cache/clattn if that is (on macOS
                                      $HOME/Library/Caches/clattn, on Windows
                                      %LOCALAPPDATA%/clattn). "" or "none", or such a
                                      CLATTN_CACHE_DIR: nowhere. A path in UTF-8. See below. */
    /** For testing; NULL otherwise. Facts from clattn_device_profile_parse() or
     *  clattn_device_query(), possibly changed; read during the call only.
     *
     *  With a device: it claims no more than both it and the profile have (sizes, versions, address
     *  bits, extensions, fp16, fp64, a compiler), and what merely describes it (name, vendor, type,
     *  compute units, widths) is the profile's, so that what is chosen is what it would get.
     *  Without one (@p opencl and @p device null): the profile stands in for it. Plans can be made,
     *  chosen as for such a device, and described; nothing is built, and all that needs a device
     *  returns CLATTN_NO_DEVICE. */
    const clattn_device_info *profile;
} clattn_context_options;

/*
 * The cache directory.
 *
 * It need not exist or be writable: the library works without. It is made with mode 0700, by default only where the
 * home directory, or the one that holds $XDG_CACHE_HOME, is there. A device without a compiler runs what is kept there
 * for it and its driver.
 *
 * Who can write there can run code in all processes that use it, for it holds built programs. It is not used,
 * which a warning says, if it belongs to another user than the process's effective one and root, or if others may write
 * to it (a group may that has its owner's number); nor by default if the home directory is another user's. The same holds
 * for the files and folders in it, none of which may be a link. A program that runs with another user's rights (setuid) takes
 * it from clattn_context_options alone. SECURITY.md has more.
 *
 * Programs there take no more than $CLATTN_CACHE_MAX_SIZE bytes, a whole number that may be followed by K, M or G (powers of
 * 1024); 0: any; by default 1G. Whoever writes removes what was used longest ago. What was tuned does not count.
 *
 * A program at which two processes died within a day while it was compiled or checked, since the same boot and under
 * the same limits (address space, open files, memory of the control group), is not tried a third time for a day, nor
 * in contexts that found it so: a crash of the driver costs two processes, not all. A process that is killed meanwhile counts
 * as well, for nothing tells it from a crash. A warning of each context and the reason of a plan that would have had it
 * (clattn_plan_info) say so and until when, and `clattn-tune forget` has it tried at once. An interruption (SIGINT, SIGTERM,
 * SIGHUP) of clattn-bench and clattn-tune does not count.
 */

/**
 * Makes a context for @p device of @p opencl.
 *
 * @param opencl   Retained until the clattn context and its plans are released. NULL only with a
 *                 profile that stands in for the device.
 * @param device   One of the devices of @p opencl; NULL if and only if @p opencl is.
 * @param options  NULL for the defaults; read during the call only.
 * @param context  Not null; receives the context (release it), or NULL on failure.
 * @retval CLATTN_SUCCESS           Made. Nothing was compiled yet.
 * @retval CLATTN_INVALID_ARGUMENT  A null, an options->struct_size of none of this library's
 *                                  versions, a device that does not belong to @p opencl, or a
 *                                  profile with facts beyond their limits.
 * @retval CLATTN_UNSUPPORTED       The device is big-endian or older than OpenCL 1.2, or takes
 *                                  fewer bytes of arguments than kernels have.
 * @retval CLATTN_NO_COMPILER       The device has no compiler, and there is no cache directory that
 *                                  could hold built programs.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 * @retval CLATTN_OPENCL_ERROR      A query of the device failed.
 */
CLATTN_API clattn_status clattn_context_create(cl_context opencl, cl_device_id device,
                                               const clattn_context_options *options,
                                               clattn_context **context);

/**
 * Makes an OpenCL context for the device that clattn_device_select(@p selector) chooses, and a
 * clattn context on it. The OpenCL context lives as long as the clattn context.
 *
 * Other statuses as clattn_context_create().
 *
 * @param selector  As for clattn_device_select(); may be NULL.
 * @param options   NULL for no logging; read during the call only.
 * @param context   Not null; receives the context (release it), or NULL on failure.
 * @retval CLATTN_NO_DEVICE     No device matches @p selector.
 * @retval CLATTN_OPENCL_ERROR  clCreateContext failed, or a driver when it was asked for devices.
 */
CLATTN_API clattn_status clattn_context_create_default(const char *selector,
                                                       const clattn_context_options *options,
                                                       clattn_context **context);

/**
 * Gives up the caller's reference; NULL is allowed. Plans made from the context keep it alive:
 * what it holds is freed with the last of them.
 *
 * With the last reference the binaries of programs go to the cache directory that are not there
 * yet: where a driver compiles once more for them (PoCL), which may take as long as making the plans
 * did, they wait for this moment, and the release for kernels that still run. After ten seconds no further one is begun,
 * and the log says how many are left to processes that use those programs again. A process that ends without it
 * has lost no more than that: the next one trusts what was checked, and builds again, on PoCL out of
 * its own cache (POCL_CACHE_DIR), where it finds the code. The library has no threads of its own,
 * which would have to end with the process.
 */
CLATTN_API void clattn_context_release(clattn_context *context);

/**
 * Lets go of the programs in memory that no plan uses, once those of all plans are written to the cache directory as the end
 * of the context would, for as many seconds at most. Plans that are made later load them again. Beside it other calls
 * go on, as with clattn_context_leave().
 *
 * @param context  Not null.
 * @retval CLATTN_SUCCESS           They are gone, if there were any.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a context of before fork().
 */
CLATTN_API clattn_status clattn_context_trim(clattn_context *context);

/**
 * Removes all built programs, of any device, from the context's cache directory; what was tuned stays, and so does what
 * the context has in memory. Other processes that use the directory compile again what they do not have.
 *
 * @param context  Not null.
 * @param removed  NULL, or receives how many were removed; 0 without a cache directory.
 * @retval CLATTN_SUCCESS           None is left.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a context of before fork().
 * @retval CLATTN_FILE_ERROR        Some cannot be removed.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory, or too many open files; some may be left.
 */
CLATTN_API clattn_status clattn_context_clear_cache(clattn_context *context, size_t *removed);

/** The OpenCL context, borrowed; NULL for NULL and where a profile stands in for a device. */
CLATTN_API cl_context clattn_context_opencl(const clattn_context *context);

/** The device's facts, narrowed by a profile if there is one, borrowed for the life of the context;
 *  NULL for NULL. */
CLATTN_API const clattn_device_info *clattn_context_device(const clattn_context *context);

/** Passes a sentence to the context's log, as the library does with its own, for libraries that build on clattn; nothing
 *  for a NULL context or message. */
CLATTN_API void clattn_context_log(const clattn_context *context, clattn_log_level level,
                                   const char *message);

/**
 * Why the calling thread's last call with this context failed, in one sentence: what the log callback gets as
 * CLATTN_LOG_ERROR, or the reason that a call has to give. Errors of other threads do not change it, nor do
 * calls that succeed.
 *
 * @param context  NULL: why the thread's last call that failed did, with any context or with none, as
 *                 clattn_context_create() and clattn_problem_parse() are.
 * @return         Owned by the library, until the thread's next call that fails; "" if there is none, or if
 *                 the thread has had errors with four other contexts since. Never NULL.
 */
CLATTN_API const char *clattn_context_last_error(const clattn_context *context);

/** How many programs the context has compiled so far; 0 for NULL. A second plan adds none. */
CLATTN_API size_t clattn_context_builds(const clattn_context *context);

/**
 * For a process that is about to end without releasing its context, because threads that it does not wait
 * for may still use it: writes the binaries that clattn_context_release() would, and has programs that
 * are being built not count as what ended the process. It may be called beside all other calls. Those that enqueue
 * kernels may be delayed while a binary is written, and with PoCL it waits for kernels that run.
 *
 * @param context  Stays as it is; NULL is allowed.
 */
CLATTN_API void clattn_context_leave(clattn_context *context);

CLATTN_END

#endif
