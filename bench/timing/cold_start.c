/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/cold_start.h"
#include "cli/worker_process.h"
#include "internal.h"
#include "os/interrupt.h"
#include "os/temporary.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDER_BYTES = 256, TEXT_BYTES = FOLDER_BYTES + 32, MOST_ARGUMENTS = 13 };

#define DEATH_SECONDS 3.0
#define TICK_SECONDS 0.02

/* The folders in which this library and the drivers keep compiled programs. Many fall back on
 * the last. */
static const char *const caches[] = {
    "CLATTN_CACHE_DIR", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "CUDA_CACHE_PATH",
    "NEO_CACHE_DIR",    "cl_cache_dir",   "AMD_COMGR_CACHE_DIR",   "XDG_CACHE_HOME",
};

#define NUM_CACHES (sizeof caches / sizeof *caches)

/* ---- the processes --------------------------------------------------------------------------- */

/* Where caches are in a process's surroundings: each has a folder of its own, and none finds another's files. */
struct surroundings {
    char text[NUM_CACHES][TEXT_BYTES];
    const char *list[NUM_CACHES + 1]; /* Ends with NULL. */
};

static void surround(struct surroundings *s, const char *folder)
{
    for (size_t n = 0; n < NUM_CACHES; n++) {
        snprintf(s->text[n], TEXT_BYTES, "%s=%s/%zu", caches[n], folder, n);
        ca_folder_make(strchr(s->text[n], '=') + 1);
        s->list[n] = s->text[n];
    }
    s->list[NUM_CACHES] = NULL;
}

/* Waits until the child has ended; one that does not end even when killed is left behind. */
static bool await(const struct cold_start *call, const struct ca_child *child, struct message *why)
{
    const double deadline = ca_stopwatch_now() + call->seconds;
    struct ca_child_end end = {.status = 0};
    double killed = 0.0;

    while (!ca_child_reap(child, TICK_SECONDS, &end) &&
           (killed == 0.0 || ca_stopwatch_now() < killed + DEATH_SECONDS)) {
        if (killed == 0.0 && (ca_interrupted() || ca_stopwatch_now() > deadline)) {
            killed = ca_stopwatch_now();
            ca_child_kill(child);
        }
        call->tick(call->user);
    }
    ca_child_kill(child); /* also kills what the child may have left running */
    if (ca_interrupted())
        return message_set(why, "was interrupted");
    if (killed > 0.0)
        return message_set(why, "took longer than %.3g s", call->seconds);
    return ca_child_describe(&end, why);
}

/* All steps before the first result, in milliseconds in the file, and the parts of compiling. */
static bool read_steps(const char *path, double *seconds, struct cold_start_parts *parts,
                       struct message *why)
{
    static const char *const steps[] = {"devices", "context", "plan", "first_execution"};
    json_t *object = json_load_file(path, 0, NULL);
    const json_t *milliseconds = json_object_get(object, "milliseconds");
    double sum = 0.0;

    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        const json_t *step = json_object_get(milliseconds, steps[n]);
        sum += json_is_number(step) ? json_number_value(step) * 1e-3 : NAN;
    }
    for (size_t n = 0; n < COLD_START_PARTS; n++)
        parts->seconds[n] =
            1e-3 * json_number_value(json_object_get(json_object_get(object, "compiling"),
                                                     cold_start_part_keys[n]));
    json_decref(object);
    *seconds = sum;
    return isfinite(sum) || message_set(why, "wrote no times");
}

static bool run_process(const struct cold_start *call, const char *folder,
                        const char *const *variables, double *seconds,
                        struct cold_start_parts *parts, struct message *why)
{
    const char *configuration = call->configuration != NULL ? call->configuration : "";
    const size_t family = strcspn(configuration, " ");
    const char *tunables = configuration + family + strspn(configuration + family, " ");
    char device[24], name[64], path[TEXT_BYTES];
    const char *argv[MOST_ARGUMENTS] = {call->program, "plan",   "--once", "--device",
                                        device,        "--json", path};
    const struct ca_child_files silent = {
        .input = CA_NO_FILE, .output = CA_NO_FILE, .errors = CA_NO_FILE};
    size_t count = 7;
    struct ca_child child;

    snprintf(device, sizeof device, "%zu", call->device);
    snprintf(name, sizeof name, "%.*s", (int)family, configuration);
    snprintf(path, sizeof path, "%s/plan.json", folder);
    if (name[0] != '\0') {
        argv[count++] = "--family";
        argv[count++] = name;
    }
    if (tunables[0] != '\0') {
        argv[count++] = "--tunables";
        argv[count++] = tunables;
    }
    argv[count] = call->problem;
    const int error = ca_child_start(&child, argv, &silent, variables);
    if (error != 0)
        return message_set(why, "was not started: %s", strerror(error));
    return await(call, &child, why) && read_steps(path, seconds, parts, why);
}

bool cold_start_measure(const struct cold_start *call, double *source, double *cache,
                        struct cold_start_parts *parts, struct message *why)
{
    struct cold_start_parts none;
    struct surroundings surroundings;
    char folder[FOLDER_BYTES];
    struct message how;

    *source = *cache = NAN;
    if (!ca_temporary_folder(folder, sizeof folder, ca_temporary_place(), "clattn-first-"))
        return message_set(why, "no folder for caches in %.300s: %s", ca_temporary_place(),
                           strerror(errno));
    surround(&surroundings, folder);
    bool ok = run_process(call, folder, surroundings.list, source, parts, &how) &&
              run_process(call, folder, surroundings.list, cache, &none, &how);
    ca_folder_remove(folder);
    if (!ok) {
        *source = *cache = NAN;
        *parts = (struct cold_start_parts){{0.0}};
        message_set(why, "the process for a first call %.400s", how.text);
    }
    return ok;
}

/* ---- parts ----------------------------------------------------------------------------------- */

const char *const cold_start_part_keys[COLD_START_PARTS] = {"front_end", "code_generation",
                                                            "self_check", "storing"};

void cold_start_parts_print(const struct cold_start_parts *parts, char *text, size_t bytes)
{
    static const char *const names[COLD_START_PARTS] = {"front end", "code generation",
                                                        "self-check", "storing"};
    size_t length = 0;

    text[0] = '\0';
    for (size_t n = 0; n < COLD_START_PARTS && length < bytes; n++)
        if (parts->seconds[n] > 0.0)
            length += (size_t)snprintf(text + length, bytes - length, "%s%s %.2f s",
                                       length > 0 ? ", " : "", names[n], parts->seconds[n]);
}
