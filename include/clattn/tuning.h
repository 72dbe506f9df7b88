/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file tuning.h  Finding the fastest kernels for a device, keeping what was found, and choosing
 * from it.
 * @ingroup tuning
 * Results are kept in the store: one JSON file per device and driver, tuning/DEVICE-HASH-VERSIONS.json
 * in the cache directory (clattn_context_options), where VERSIONS is a hash of the versions. Plans
 * look there by problem class (clattn_problem_class()), in this order:
 *
 *     1. what clattn_plan_options force                 5. the nearest class, by size and options
 *     2. an override (CLATTN_OVERRIDE)                  6. the table shipped with the library, if
 *     3. the class's own entries                           it holds this device
 *     4. ... measured with another driver or version    7. the family's defaults for this device
 *
 * The environment variable CLATTN_OVERRIDE, "FAMILY NAME=value ...", is an override for every problem that it fits;
 * contexts read it when they are made.
 *
 * Of a near class (5, 6) only what tuning changed is taken: a tunable that it left as the device's
 * facts suggested for that class gets what they suggest for this problem.
 *
 * Whatever its origin, a choice must fit the device and the problem, must not be quarantined, and
 * its program must pass the self-check of clattn_plan_create(); else the next one is tried.
 *
 * Many processes may write one store at a time and lose nothing; a process killed while it writes, and a power cut,
 * leave the file as it was or as it was to be. A file that is damaged or of another version is set aside as
 * NAME.damaged-N, with a warning, and a new one is begun. A store that cannot be written costs a
 * warning, not the call: what is found lives in memory, and is written by the next call that can or with the end of
 * the context.
 *
 * Writers take turns by a lock (NAME.lock). Each waits ten seconds at most for one holder, whom the sentence then names, as far
 * as the system tells. Who waited so in vain does not wait again until the lock is free. Plans never wait, unless they
 * measure: a damaged file is ignored while another process writes. On file systems without locks a file (NAME.lock.held) stands
 * in, which is said once; one that a killed process has left is removed by the first writer that has waited as long.
 */
#ifndef CLATTN_TUNING_H
#define CLATTN_TUNING_H

#include <clattn/plan.h>

CLATTN_BEGIN

/* ---- the store ------------------------------------------------------------------------------- */

/** One thing that the store knows. The texts are borrowed for the duration of the visit. */
typedef struct clattn_tuning_entry {
    size_t struct_size;        /**< sizeof(clattn_tuning_entry) of the library. */
    const char *problem_class; /**< As clattn_problem_class() prints it. */
    const char *family;        /**< A name of clattn_family_name(). */
    const char *tunables;      /**< "NAME=value ...", all of them. */
    const char *quarantine;    /**< NULL, or why the configuration is never used: an error in its
                                 source, a wrong result, a crash or hang that was seen twice. Then
                                 the measured values below are 0 and @ref samples NULL. */
    size_t rank;               /**< Among the entries of its class: 0 is the fastest. */
    double seconds;            /**< Device time of one execution, by which entries are ranked: the
                                 samples' median; of one that was raced and did not win, the
                                 winner's median times the ratio to it, measured in pairs. */
    double low;            /**< Lower end of the 95 % confidence interval of the samples' median. */
    double high;           /**< Its upper end. */
    const double *samples; /**< All timings, in seconds. */
    size_t num_samples;    /**< How many there are. */
    double error;          /**< The worst element's error as a share of its bound; at most 1. */
    const char *when;      /**< UTC, such as "2026-11-21T09:30:00Z". */
    const char *policy;    /**< How it was measured. */
    int stale; /**< Not 0: measured with another driver, kernel source or set of tunables. */
} clattn_tuning_entry;

/** Not 0 ends the listing. Must not call clattn with the same context. */
typedef int (*clattn_tuning_visitor)(const clattn_tuning_entry *entry, void *user_data);

/**
 * The store's file, which need not exist.
 *
 * @param context  Not null.
 * @param text    NULL if @p text_bytes is 0; else receives the path, "" if there is no cache.
 * @param text_bytes  The size of @p text.
 * @param needed  NULL, or receives the bytes needed, the terminating 0 included.
 * @retval CLATTN_SUCCESS, CLATTN_INVALID_ARGUMENT, CLATTN_BUFFER_TOO_SMALL
 *                As clattn_problem_class().
 */
CLATTN_API clattn_status clattn_tuning_path(const clattn_context *context, char *text,
                                            size_t text_bytes, size_t *needed);

/**
 * Visits what the store holds for this device: classes in order of their text, entries by rank,
 * then the class's quarantine.
 *
 * @param context  Not null.
 * @param problem  NULL for everything, or a problem of which all is visited that plans for it use:
 *                 its class, and the quarantine of classes whose programs are the same.
 * @param visitor  Not null.
 * @param user_data  Passed to @p visitor.
 * @retval CLATTN_SUCCESS           All were visited, or the visitor ended it.
 * @retval CLATTN_INVALID_ARGUMENT  A null context or visitor.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_tuning_list(const clattn_context *context,
                                            const clattn_problem *problem,
                                            clattn_tuning_visitor visitor, void *user_data);

/**
 * Writes what the store holds for this device to a file, replaced as a whole.
 *
 * @param context  Not null.
 * @param path  Not null.
 * @retval CLATTN_SUCCESS           Written.
 * @retval CLATTN_INVALID_ARGUMENT  A null.
 * @retval CLATTN_NOT_TUNED         The store holds nothing for this device; no file was written.
 * @retval CLATTN_FILE_ERROR        The file cannot be written.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_tuning_export(const clattn_context *context, const char *path);

/**
 * Merges a file (an export, another's store) into the store: of each configuration the entry with
 * more samples stays, then the newer one. Entries for other devices are passed over, with a warning that
 * names one where the file has none of this device; those of this
 * device with another driver or kernel source come in as stale. Nothing imported is believed: a
 * configuration is refused if it does not fit, and must pass its self-check, before it is used.
 *
 * @param context  Not null.
 * @param path   Not null.
 * @param taken  NULL, or receives how many entries (quarantine included) the store now holds that
 *               it did not hold before.
 * @retval CLATTN_SUCCESS           Merged.
 * @retval CLATTN_INVALID_ARGUMENT  A null.
 * @retval CLATTN_FILE_ERROR The file cannot be read or is not a store, or the store cannot be
 *                                  written; nothing was changed.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_tuning_import(clattn_context *context, const char *path,
                                              size_t *taken);

/**
 * Merges files of any devices into one, without a device: a union that does not depend on the
 * order of the files, nor on how often one is given.
 *
 * @param paths   @p count files, not null; @p to may be one of them.
 * @param count   At least 1.
 * @param to      Not null; replaced as a whole.
 * @param reason  NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Written.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or no files.
 * @retval CLATTN_FILE_ERROR        A file cannot be read, is not a store, or cannot be written.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_tuning_merge(const char *const *paths, size_t count, const char *to,
                                             char *reason, size_t reason_bytes);

/**
 * Removes entries and quarantine from the store, and what the cache of programs holds against
 * programs (that they do not build, ended the process twice or failed their self-check), which are
 * then tried again. Built programs stay: clattn_context_clear_cache().
 *
 * @param context  Not null.
 * @param problem  NULL for everything of this device, or a problem: its class is forgotten, with
 *                 the quarantine of classes whose programs are the same.
 * @param removed  NULL, or receives how many entries (quarantine and programs included) went.
 * @retval CLATTN_SUCCESS           Done, also if there was nothing.
 * @retval CLATTN_INVALID_ARGUMENT  A null context.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 * @retval CLATTN_FILE_ERROR        The store cannot be written.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_tuning_forget(clattn_context *context,
                                              const clattn_problem *problem, size_t *removed);

/* ---- tuning ---------------------------------------------------------------------------------- */

/** How far a tuning has come. The texts are borrowed for the duration of the call. */
typedef struct clattn_tuning_progress {
    size_t struct_size;        /**< sizeof(clattn_tuning_progress) of the library. */
    const char *phase;         /**< "seeds", "search", "finish" or "race". */
    const char *problem_class; /**< The class that is being tuned. */
    size_t problem;            /**< Its index among the problems given. */
    size_t num_problems;       /**< How many were given. */
    size_t evaluations;        /**< Configurations tried so far, for all problems. */
    double seconds;            /**< Since the beginning. */
    double seconds_left;       /**< Estimated. */
    const char *configuration; /**< Tried last, "FAMILY NAME=value ...". */
    const char *failure;       /**< Why that failed, NULL if it did not. */
    double best;               /**< Seconds of this class's fastest so far; 0 if there is none. */
    double untuned;            /**< Seconds of the choice without tuning; 0 if not known yet. */
} clattn_tuning_progress;

/** Not 0 ends the tuning early; results so far are kept. Must not call clattn with the context. */
typedef int (*clattn_tuning_observer)(const clattn_tuning_progress *progress, void *user_data);

/** How long a tuning takes and how it searches. All but struct_size may be 0. */
typedef struct clattn_tuning_options {
    size_t struct_size;   /**< sizeof(clattn_tuning_options). */
    double seconds;       /**< For all problems together, overrun by one configuration at most;
                                  0: 60, or no limit if evaluations is given. */
    size_t evaluations;   /**< At most that many configurations; 0: no limit. */
    const char *strategy; /**< NULL: "guided"; or random, exhaustive. */
    uint64_t seed;        /**< The same seed makes the same choices. */
    int again;            /**< Not 0: also what the store holds already. */
    clattn_tuning_observer observer; /**< NULL, or called after each configuration. */
    void *user_data;                 /**< Passed to @ref observer; borrowed. */
} clattn_tuning_options;

/**
 * Searches for the fastest configuration of each problem's class, in this process, and keeps the
 * top five of each in the store. A class that has fresh entries is passed over (unless again); of
 * one with only stale entries, these are measured anew first. The program clattn-tune does the same
 * with a worker process, which survives drivers that crash or hang: prefer it.
 *
 * @param context   Not null.
 * @param problems  @p count problems, not null.
 * @param count     At least 1.
 * @param options   NULL for the defaults; read during the call only.
 * @param tuned     NULL, or receives how many classes were searched.
 * @retval CLATTN_SUCCESS           Done, or ended early by the time or the observer.
 * @retval CLATTN_INVALID_ARGUMENT  A null, no problem, an unknown strategy, a negative time.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check(), of one of the problems.
 * @retval CLATTN_UNSUPPORTED       No family can compute one of the problems.
 * @retval CLATTN_MISCOMPILED, CLATTN_BUILD_FAILED
 *                                  No configuration of a problem worked.
 * @retval CLATTN_NO_COMPILER       The device has no compiler, so nothing new can be tried.
 * @retval CLATTN_OUT_OF_MEMORY     Host or device memory ran out.
 * @retval CLATTN_OPENCL_ERROR      Another OpenCL call failed; the log names it.
 */
CLATTN_API clattn_status clattn_tune(clattn_context *context, const clattn_problem *problems,
                                     size_t count, const clattn_tuning_options *options,
                                     size_t *tuned);

CLATTN_END

#endif
