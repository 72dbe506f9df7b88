#define _XOPEN_SOURCE 700 /* mkdtemp, nftw, nanosleep */
#include "bench/timing/cold_start.h"
#include "cli/child.h"
#include "cli/interrupt.h"
#include "internal.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    FOLDER_BYTES = 256,
    TEXT_BYTES = FOLDER_BYTES + 32,
    NAP_NANOSECONDS = 20000000,
    MOST_ARGUMENTS = 13
};

#define DEATH_SECONDS 3.0

/* Where this library and the drivers keep what they have compiled; many fall back on the last. */
static const char *const caches[] = {
    "CLATTN_CACHE_DIR", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "CUDA_CACHE_PATH",
    "NEO_CACHE_DIR",    "cl_cache_dir",   "AMD_COMGR_CACHE_DIR",   "XDG_CACHE_HOME",
};

#define NUM_CACHES (sizeof caches / sizeof *caches)

/* ---- the folder ------------------------------------------------------------------------------ */

static bool make_folder(char path[static FOLDER_BYTES], struct message *why)
{
    const char *parent = getenv("TMPDIR");

    if (parent == NULL || parent[0] == '\0' || strlen(parent) > FOLDER_BYTES - 32)
        parent = "/tmp";
    snprintf(path, FOLDER_BYTES, "%s/clattn-first-XXXXXX", parent);
    return mkdtemp(path) != NULL ||
           message_set(why, "no folder for caches in %.300s: %s", parent, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    remove(path);
    return 0;
}

static void remove_folder(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- the processes --------------------------------------------------------------------------- */

/* A process's surroundings: this one's, but for where caches are. */
struct surroundings {
    char text[NUM_CACHES][TEXT_BYTES];
    char **list; /* Ends with NULL; owned. */
};

static bool is_cache(const char *variable)
{
    for (size_t n = 0; n < NUM_CACHES; n++) {
        const size_t length = strlen(caches[n]);
        if (strncmp(variable, caches[n], length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

static bool surround(struct surroundings *s, const char *folder, struct message *why)
{
    size_t all = 0, count = 0;

    while (environ[all] != NULL)
        all++;
    s->list = calloc(all + NUM_CACHES + 1, sizeof *s->list);
    if (s->list == NULL)
        return message_set(why, "no memory for a process");
    for (size_t n = 0; n < NUM_CACHES; n++) { /* each its own: none is to find another's files */
        snprintf(s->text[n], TEXT_BYTES, "%s=%s/%zu", caches[n], folder, n);
        mkdir(strchr(s->text[n], '=') + 1, 0700);
        s->list[count++] = s->text[n];
    }
    for (size_t n = 0; n < all; n++)
        if (!is_cache(environ[n]))
            s->list[count++] = environ[n];
    return true;
}

/* Until it has ended; what does not even end when it is killed is left behind. */
static bool await(const struct cold_start *call, pid_t pid, struct message *why)
{
    const struct timespec nap = {0, NAP_NANOSECONDS};
    const double deadline = ca_stopwatch_now() + call->seconds;
    double killed = 0.0;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0 &&
           (killed == 0.0 || ca_stopwatch_now() < killed + DEATH_SECONDS)) {
        if (killed == 0.0 && (ca_interrupted() || ca_stopwatch_now() > deadline)) {
            killed = ca_stopwatch_now();
            kill(-pid, SIGKILL);
        }
        call->tick(call->user);
        nanosleep(&nap, NULL);
    }
    kill(-pid, SIGKILL); /* what it may have left behind */
    if (ca_interrupted())
        return message_set(why, "was interrupted");
    if (killed > 0.0)
        return message_set(why, "took longer than %.3g s", call->seconds);
    return ca_child_describe(status, why);
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

static bool run_process(const struct cold_start *call, const char *folder, char **variables,
                        double *seconds, struct cold_start_parts *parts, struct message *why)
{
    const char *configuration = call->configuration != NULL ? call->configuration : "";
    const size_t family = strcspn(configuration, " ");
    const char *tunables = configuration + family + strspn(configuration + family, " ");
    char device[24], name[64], path[TEXT_BYTES];
    const char *argv[MOST_ARGUMENTS] = {call->program, "plan",   "--once", "--device",
                                        device,        "--json", path};
    const struct ca_child_files silent = {
        .input = CA_CHILD_NOTHING, .output = CA_CHILD_NOTHING, .errors = CA_CHILD_NOTHING};
    size_t count = 7;
    pid_t pid;

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
    const int error = ca_child_start(&pid, argv, &silent, variables);
    if (error != 0)
        return message_set(why, "was not started: %s", strerror(error));
    return await(call, pid, why) && read_steps(path, seconds, parts, why);
}

bool cold_start_measure(const struct cold_start *call, double *source, double *cache,
                        struct cold_start_parts *parts, struct message *why)
{
    struct cold_start_parts none;
    struct surroundings surroundings = {.list = NULL};
    char folder[FOLDER_BYTES];
    struct message how;

    *source = *cache = NAN;
    if (!make_folder(folder, why))
        return false;
    bool ok = surround(&surroundings, folder, &how) &&
              run_process(call, folder, surroundings.list, source, parts, &how) &&
              run_process(call, folder, surroundings.list, cache, &none, &how);
    free(surroundings.list);
    remove_folder(folder);
    if (!ok) {
        *source = *cache = NAN;
        *parts = (struct cold_start_parts){{0.0}};
        message_set(why, "the process for a first call %.400s", how.text);
    }
    return ok;
}
