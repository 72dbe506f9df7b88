/* SPDX-License-Identifier: Apache-2.0 */
/** @file plan.h  From a problem to kernels that are ready to be enqueued. @ingroup preparing */
#ifndef CLATTN_PLAN_H
#define CLATTN_PLAN_H

#include <clattn/context.h>
#include <clattn/family.h>
#include <clattn/problem.h>

CLATTN_BEGIN

/** A prepared computation. Immutable: any number of threads may execute it on their queues. */
typedef struct clattn_plan clattn_plan;

/** How a plan chooses; to be combined with |. The order of the choice stands in tuning.h. */
enum {
    CLATTN_PLAN_DEFAULT = 0,
    /** If the store has no fresh entry for the problem's class, tunes it first (clattn_tune()), in
     *  at most measure_seconds, in this process. */
    CLATTN_PLAN_MEASURE = 1,
    /** Only an override or the class's own entries; without one CLATTN_NOT_TUNED. */
    CLATTN_PLAN_KNOWN_ONLY = 2,
    /** Neither overrides nor the store: what a device gets that was never tuned. */
    CLATTN_PLAN_UNTUNED = 4
};

/** What a plan is forced to take, and from what it may choose. All but struct_size may be 0. */
typedef struct clattn_plan_options {
    size_t struct_size;   /**< sizeof(clattn_plan_options). */
    const char *family;   /**< NULL to let the library choose, or a name of clattn_family_name(). */
    const char *tunables; /**< NULL for the defaults, or "NAME=value ..." for some or all of the
                               family's tunables; needs @ref family. */
    unsigned flags;       /**< CLATTN_PLAN_... */
    double measure_seconds; /**< Seconds for measuring with CLATTN_PLAN_MEASURE, over 0; else 0. */
} clattn_plan_options;

/** What a plan will run. The texts belong to the plan and live as long as it. */
typedef struct clattn_plan_info {
    size_t struct_size;   /**< Set by the caller to sizeof(clattn_plan_info). */
    const char *family;   /**< The family's name, for example "fused_cpu UNIT=vector". */
    const char *tunables; /**< "NAME=value ...", all of them; "" for a family without any. */
    const char
        *reason; /**< Why this family, one sentence; then those that were passed over since they
                                 do not work here, and why, each behind a semicolon. */
    const char *problem;    /**< The problem's text form. */
    size_t workspace_bytes; /**< 0 if none is needed. */
    size_t work_group_size; /**< Work-items of the largest work-group; 0 if nothing is to be run. */
    size_t local_bytes;     /**< Local memory of the hungriest work-group; 0 if none has any. */
    /** Bytes that the family expects a work-item to keep in registers or private memory; 0 where
     *  they are negligible. */
    size_t private_bytes;
} clattn_plan_info;

/**
 * Whether clattn_plan_create() with the same arguments would find a family that can do it: the
 * same check, without building anything.
 *
 * @param context,problem  Not null.
 * @param options          NULL, or what is to be forced; read during the call only.
 * @retval CLATTN_SUCCESS           Yes; else clattn_context_last_error() says why not, and no callback is called.
 * @retval CLATTN_INVALID_ARGUMENT  A null, tunables without a family, a struct_size of none of
 *                                  this library's versions, flags that are unknown or contradict
 *                                  each other or a forced family, or measure_seconds without its
 *                                  flag or the other way round.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 * @retval CLATTN_NOT_TUNED         CLATTN_PLAN_KNOWN_ONLY, and nothing is known.
 * @retval CLATTN_UNSUPPORTED       No family can, or the one forced cannot, or no family or
 *                                  tunable has that name, or a value is not among its candidates, or
 *                                  the dims are so large (some 240000 forward in f32) that a self-check
 *                                  would take over 64 MiB.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory for what was tuned elsewhere.
 */
CLATTN_API clattn_status clattn_plan_supports(const clattn_context *context,
                                              const clattn_problem *problem,
                                              const clattn_plan_options *options);

/**
 * Chooses family and tunables and builds the kernels, or takes them from the context if it has
 * built the same before.
 *
 * OpenCL compilers make mistakes, so a program that was built is checked before its first use: it
 * computes a small problem of the same kind (ragged, with NaN behind every mask and guard bands
 * around its output), and the result is compared with double precision. If a family does not build
 * or fails its check, the log gets a warning and the next best family is tried, unless @p options
 * force one.
 *
 * In a context whose profile stands in for a device nothing is built or checked: the plan can be
 * described, and executing it returns CLATTN_NO_DEVICE.
 *
 * @param context  Not null; kept alive by the plan.
 * @param problem  Not null; copied.
 * @param options  NULL, or what is to be forced; read during the call only.
 * @param plan     Not null; receives the plan (release it), or NULL on failure.
 * @retval CLATTN_SUCCESS           Ready.
 * @retval CLATTN_INVALID_ARGUMENT, CLATTN_INVALID_PROBLEM, CLATTN_UNSUPPORTED, CLATTN_NOT_TUNED
 *                                  As clattn_plan_supports().
 * @retval CLATTN_BUILD_FAILED      The compiler refused a kernel; the log has its output.
 * @retval CLATTN_NO_COMPILER       The device has no compiler, and the cache directory no program.
 * @retval CLATTN_MISCOMPILED       The kernel computes wrong results on this device and driver.
 * @retval CLATTN_OUT_OF_MEMORY     Host or device memory ran out.
 * @retval CLATTN_OPENCL_ERROR      Another OpenCL call failed.
 */
CLATTN_API clattn_status clattn_plan_create(clattn_context *context, const clattn_problem *problem,
                                            const clattn_plan_options *options, clattn_plan **plan);

/**
 * Gives up the plan; NULL is allowed. Executions that were enqueued finish undisturbed; no other
 * thread may be inside a call with this plan.
 */
CLATTN_API void clattn_plan_release(clattn_plan *plan);

/**
 * What the plan will run.
 *
 * @param plan,info  Not null.
 * @retval CLATTN_SUCCESS           Filled.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 */
CLATTN_API clattn_status clattn_plan_describe(const clattn_plan *plan, clattn_plan_info *info);

CLATTN_END

#endif
