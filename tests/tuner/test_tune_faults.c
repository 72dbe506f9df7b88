/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune with a driver that misbehaves (tune_faults.c): a bad configuration costs itself and
 * nothing else, and is never chosen. */
#define _POSIX_C_SOURCE 200809L /* setenv, kill */
#include "tests/tuner/tune_program.h"
#include <criterion/new/assert.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

TestSuite(tune_faults, .init = tune_open, .fini = scratch_close, .timeout = 300);

/* Kinds in the order in which programs are built, and what the result says of each. */
static const struct {
    const char *kind, *outcome, *reason;
    bool may_pass; /* not quarantined */
} faults[] = {
    {"none", NULL, NULL, false},
    {"none", NULL, NULL, false},
    {"none", NULL, NULL, false},
    {"none", NULL, NULL, false},
    {"hang", "timeout", "building it took longer than", false},
    {"segv", "crash", "building it was killed by signal 11", false},
    {"exit", "crash", "building it exited with status 3, saying 'out of luck'", false},
    {"wrong", "correctness", "miscompiled", false},
    {"nan", "correctness", "NaN", false},
    {"outside", "correctness", "outside", false},
    {"endless", "timeout", "building it took longer than", false},
    {"sticky", "runtime", "CL_OUT_OF_RESOURCES", true},
    {"refused", "runtime", "does not build", true}, /* no log blames the source */
    {"wrong@2", "correctness", "", false}, /* right in its self-check, wrong on the problem */
    /* Not the first that is timed: a slow one, on a busy machine, may get none (measurer_time.h). */
    {"segv@2", "crash", "measuring it was killed by signal 11", false},
};
enum { NUM_FAULTS = sizeof faults / sizeof *faults };

/* The options of the nth program as "NAME=value ...", without the unit, which texts of configurations
 * have by its name, before all others. */
static void read_tunables(size_t program, char *text, size_t text_bytes)
{
    FILE *file = fopen(scratch_path("seen"), "r");
    char line[4096] = "";

    for (size_t n = 0; n <= program; n++)
        cr_assert(file && fgets(line, sizeof line, file) != NULL, "program %zu was not built", n);
    fclose(file);
    text[0] = '\0';
    char *word = strstr(line, "-DHAS_DROPOUT="); /* the last of the problem's own */
    cr_assert(word && strlen(line) < text_bytes, "%s", line);
    for (word = strtok(strchr(word, ' '), " \n"); word; word = strtok(NULL, " \n")) {
        if (strncmp(word, "-DUNIT=", strlen("-DUNIT=")) == 0)
            continue;
        strcat(text, text[0] ? " " : "");
        strcat(text, word + strlen("-D"));
    }
}

/* Returns whether a configuration has these tunables, and no other, behind its family and unit. */
static bool has_tunables(const char *configuration, const char *tunables)
{
    const char *text = strchr(configuration, ' ') + 1;

    if (strncmp(text, "UNIT=", strlen("UNIT=")) == 0)
        text = strchr(text, ' ') + 1;
    return strcmp(text, tunables) == 0;
}

static const json_t *find_failure(const json_t *root, const char *tunables)
{
    const json_t *failed = json_object_get(root, "failed");

    for (size_t n = 0; n < json_array_size(failed); n++) {
        const json_t *entry = json_array_get(failed, n);
        if (has_tunables(json_text_at(entry, "configuration"), tunables))
            return entry;
    }
    return NULL;
}

/* The quarantine as `list` prints it: the configuration, then why; its lines are wrapped. */
static bool is_listed(const char *text, const char *tunables)
{
    char plain[32768];
    size_t length = 0;

    for (const char *c = text; *c; c++)
        if (*c != '\n' && !(*c == ' ' && length > 0 && plain[length - 1] == ' '))
            plain[length++] = *c;
        else if (*c == '\n' && length > 0 && plain[length - 1] != ' ')
            plain[length++] = ' ';
    plain[length] = '\0';
    const char *at = strstr(plain, tunables);
    for (; at; at = strstr(at + 1, tunables)) {
        const char *begin = at;
        while (begin > plain && *begin != ':' && *begin != '.')
            begin--;
        if (begin - plain >= 5 && strncmp(begin - 5, "never:", 6) == 0)
            return true;
    }
    return false;
}

/* Returns a configuration that took too long without a fault, or was kept from running; NULL if there
 * is none. */
static const char *find_slow(const json_t *root)
{
    const json_t *failed = json_object_get(root, "failed");
    char tunables[4096];

    for (size_t n = 0; n < json_array_size(failed); n++) {
        const json_t *entry = json_array_get(failed, n);
        const char *text = json_text_at(entry, "configuration");
        bool has_fault = !strstr(json_text_at(entry, "reason"), "took longer than");
        for (size_t k = 0; !has_fault && k < NUM_FAULTS; k++) {
            if (!faults[k].outcome || strcmp(faults[k].outcome, "timeout") != 0)
                continue;
            read_tunables(k, tunables, sizeof tunables);
            has_fault = has_tunables(text, tunables) &&
                        strcmp(json_text_at(entry, "outcome"), "timeout") == 0;
        }
        if (!has_fault)
            return text;
    }
    return NULL;
}

/* Tunes with so many seconds for a configuration, and returns the result. */
static json_t *tune(int seconds)
{
    program_must(TUNE_PROGRAM, 0, "", "forget --all");
    remove(scratch_path("seen"));
    program_must(FAULTY_PROGRAM, 0, "worker restarted",
                 "--problem '" SMALL
                 "' --budget 20 --strategy random --timeout %d --json %s/result.json",
                 seconds, scratch);
    return json_file(scratch_path("result.json"));
}

Test(tune_faults, each_costs_itself_and_is_quarantined) {
    enum { SECONDS = 8, MOST_SECONDS = 128 };
    char kinds[256] = "", tunables[4096];
    int seconds = SECONDS;

    for (size_t n = 0; n < NUM_FAULTS; n++) {
        strcat(kinds, n ? "," : "");
        strcat(kinds, faults[n].kind);
    }
    setenv("TUNE_FAULTS", kinds, 1);
    setenv("TUNE_FAULTS_SEEN", scratch_path("seen"), 1);
    json_t *root = tune(seconds);
    for (; find_slow(root) && seconds < MOST_SECONDS; root = tune(seconds)) {
        fprintf(stderr, "%s took longer than %d s: the machine is slow\n", find_slow(root),
                seconds);
        json_decref(root);
        seconds *= 4;
    }
    program_expect("2 configurations took too long twice and will not be used");
    const char *winner = json_text_at(root, "problems.0.configuration");
    cr_assert(winner != NULL, "nothing was chosen: %s", program_text);

    program_must(TUNE_PROGRAM, 0, "", "list");
    for (size_t n = 0; n < NUM_FAULTS; n++) {
        read_tunables(n, tunables, sizeof tunables);
        const json_t *failure = find_failure(root, tunables);
        cr_expect(failure ? faults[n].outcome != NULL : !faults[n].outcome, "%s: %s",
                  faults[n].kind, tunables);
        cr_expect(is_listed(program_text, tunables) == (faults[n].outcome && !faults[n].may_pass),
                  "%s: %s\n%s", faults[n].kind, tunables, program_text);
        if (!faults[n].outcome)
            continue;
        cr_expect(strstr(winner, tunables) == NULL, "%s was chosen", faults[n].kind);
        const char *outcome = json_text_at(failure, "outcome");
        const char *reason = json_text_at(failure, "reason");
        cr_expect(outcome && strcmp(outcome, faults[n].outcome) == 0, "%s: %s", faults[n].kind,
                  outcome);
        cr_expect(reason && *reason && strstr(reason, faults[n].reason) != NULL, "%s: %s",
                  faults[n].kind, reason);
    }
    json_decref(root);
}

/* A driver that always fails is not held against the configurations. */
Test(tune_faults, a_worker_that_never_starts_ends_the_tuning) {
    setenv("TUNE_FAULTS_QUEUE", "1", 1);
    program_must(FAULTY_PROGRAM, 1, "the worker process fails whenever it starts",
                 "--problem '" SMALL "' --budget 9");
    program_expect("exited with status 3, saying 'out of luck'");
    program_must(TUNE_PROGRAM, 0, "nothing is known of this device", "list");
}

/* ---- interrupted compilations ---------------------------------------------------------------- */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* Returns how many programs are said to have ended a process while they were made
 * (src/context/first_run.h). */
static size_t count_blamed(void)
{
    struct dirent *entry;
    size_t count = 0;

    DIR *directory = opendir(scratch_path("programs"));
    while (directory && (entry = readdir(directory)) != NULL) {
        const char *path = scratch_path("programs/%s", entry->d_name);
        FILE *file = strstr(entry->d_name, ".begun") ? fopen(path, "r") : NULL;
        count += file && fgetc(file) > '0';
        if (file)
            fclose(file);
    }
    if (directory)
        closedir(directory);
    return count;
}

/* Ctrl-C is no crash of the compiler, however often. (A tuner's workers have no cache.) */
Test(tune_faults, an_interrupted_compilation_is_not_to_blame) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int status;

    setenv("TUNE_FAULTS", "endless", 1);
    setenv("TUNE_FAULTS_SEEN", scratch_path("seen"), 1);
    unsetenv(
        "POCL_SIGFPE_HANDLER"); /* at 0, PoCL's compiler installs no handlers of its own either */
    for (size_t n = 0; n < sizeof signals / sizeof *signals; n++) {
        const pid_t program = tune_start(FAULTY_PROGRAM, "show '" SMALL "'");
        for (int tries = 0; tries < 3000 && count_blamed() == 0; tries++)
            nap();
        cr_assert(count_blamed() == 1, "nothing is being compiled");
        kill(program, signals[n]);
        cr_assert(waitpid(program, &status, 0) == program);
        const int ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        cr_expect(ended_by == signals[n], "%d", ended_by);
        cr_assert(count_blamed() == 0, "after signal %d", signals[n]);
    }
    setenv("TUNE_FAULTS", "", 1);
    program_must(FAULTY_PROGRAM, 0, "", "show '" SMALL "'");
    cr_expect(program_said("ended the process") == false, "%s", program_text);
}
