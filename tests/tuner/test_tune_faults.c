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

TestSuite(tune_faults, .timeout = 300);

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
    {"segv", "runtime", "building it was killed by signal 11", false},
    {"exit", "runtime", "building it exited with status 3, saying 'out of luck'", false},
    {"wrong", "correctness", "miscompiled", false},
    {"nan", "correctness", "NaN", false},
    {"outside", "correctness", "outside", false},
    {"endless", "timeout", "building it took longer than", false},
    {"sticky", "runtime", "CL_OUT_OF_RESOURCES", true},
    {"refused", "runtime", "does not build", true}, /* no log blames the source */
    {"wrong@2", "correctness", "", false}, /* right in its self-check, wrong on the problem */
    {"segv@4", "runtime", "measuring it was killed by signal 11", false},
};
enum { NUM_FAULTS = sizeof faults / sizeof *faults };

/* The options of the nth program as "NAME=value ...". */
static void read_tunables(const struct tune_run *run, size_t program, char *text, size_t text_bytes)
{
    FILE *file = fopen(tune_path(run, "seen"), "r");
    char line[4096] = "";

    for (size_t n = 0; n <= program; n++)
        cr_assert(file && fgets(line, sizeof line, file) != NULL, "program %zu was not built", n);
    fclose(file);
    text[0] = '\0';
    char *word = strstr(line, "-DHAS_DROPOUT="); /* the last of the problem's own */
    cr_assert(word && strlen(line) < text_bytes, "%s", line);
    for (word = strtok(strchr(word, ' '), " \n"); word; word = strtok(NULL, " \n")) {
        strcat(text, text[0] ? " " : "");
        strcat(text, word + strlen("-D"));
    }
}

static const json_t *find_failure(const json_t *root, const char *tunables)
{
    const json_t *failed = json_object_get(root, "failed");

    for (size_t n = 0; n < json_array_size(failed); n++) {
        const json_t *entry = json_array_get(failed, n);
        const char *text = json_string_value(json_object_get(entry, "configuration"));
        if (strcmp(strchr(text, ' ') + 1, tunables) == 0)
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

Test(tune_faults, each_costs_itself_and_is_quarantined) {
    struct tune_run run;
    char kinds[256] = "", arguments[512], tunables[1024];

    tune_run_open(&run);
    for (size_t n = 0; n < NUM_FAULTS; n++) {
        strcat(kinds, n ? "," : "");
        strcat(kinds, faults[n].kind);
    }
    setenv("TUNE_FAULTS", kinds, 1);
    setenv("TUNE_FAULTS_SEEN", tune_path(&run, "seen"), 1);
    snprintf(arguments, sizeof arguments,
             "--problem '" SMALL
             "' --budget 50 --strategy random --timeout 8 --json %s/result.json",
             run.folder);
    cr_assert(tune_run(&run, FAULTY_PROGRAM, arguments) == 0, "%s", run.text);
    cr_expect(tune_says(&run, "worker restarted"), "%s", run.text);
    cr_expect(tune_says(&run, "2 configurations took too long twice and will not be used"), "%s",
              run.text);
    json_t *root = tune_json(tune_path(&run, "result.json"));
    const json_t *problem = json_array_get(json_object_get(root, "problems"), 0);
    const char *winner = json_string_value(json_object_get(problem, "configuration"));
    cr_assert(winner != NULL, "nothing was chosen: %s", run.text);

    cr_assert(tune_run(&run, TUNE_PROGRAM, "list") == 0);
    for (size_t n = 0; n < NUM_FAULTS; n++) {
        read_tunables(&run, n, tunables, sizeof tunables);
        const json_t *failure = find_failure(root, tunables);
        cr_expect(failure ? faults[n].outcome != NULL : !faults[n].outcome, "%s: %s",
                  faults[n].kind, tunables);
        cr_expect(is_listed(run.text, tunables) == (faults[n].outcome && !faults[n].may_pass),
                  "%s: %s\n%s", faults[n].kind, tunables, run.text);
        if (!faults[n].outcome)
            continue;
        cr_expect(strstr(winner, tunables) == NULL, "%s was chosen", faults[n].kind);
        const char *outcome = json_string_value(json_object_get(failure, "outcome"));
        const char *reason = json_string_value(json_object_get(failure, "reason"));
        cr_expect(outcome && strcmp(outcome, faults[n].outcome) == 0, "%s: %s", faults[n].kind,
                  outcome);
        cr_expect(reason && *reason && strstr(reason, faults[n].reason) != NULL, "%s: %s",
                  faults[n].kind, reason);
    }
    json_decref(root);
    tune_run_close(&run);
}

/* A driver that always fails is not held against the configurations. */
Test(tune_faults, a_worker_that_never_starts_ends_the_tuning) {
    struct tune_run run;

    tune_run_open(&run);
    setenv("TUNE_FAULTS_QUEUE", "1", 1);
    cr_assert(tune_run(&run, FAULTY_PROGRAM, "--problem '" SMALL "' --budget 9") == 1, "%s",
              run.text);
    cr_expect(tune_says(&run, "the worker process fails whenever it starts"), "%s", run.text);
    cr_expect(tune_says(&run, "exited with status 3, saying 'out of luck'"), "%s", run.text);
    cr_assert(tune_run(&run, TUNE_PROGRAM, "list") == 0);
    cr_expect(tune_says(&run, "nothing is known of this device"), "%s", run.text);
    tune_run_close(&run);
}

/* ---- interrupted compilations ---------------------------------------------------------------- */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* How many programs are said to have ended a process while they were made (src/context/first_run.h). */
static size_t count_blamed(const struct tune_run *run)
{
    char path[512];
    struct dirent *entry;
    size_t count = 0;

    DIR *directory = opendir(tune_path(run, "programs"));
    while (directory && (entry = readdir(directory)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", tune_path(run, "programs"), entry->d_name);
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
    struct tune_run run;
    int status;

    tune_run_open(&run);
    setenv("TUNE_FAULTS", "endless", 1);
    setenv("TUNE_FAULTS_SEEN", tune_path(&run, "seen"), 1);
    for (size_t n = 0; n < sizeof signals / sizeof *signals; n++) {
        const pid_t program = tune_start(&run, FAULTY_PROGRAM, "show '" SMALL "'");
        for (int tries = 0; tries < 3000 && count_blamed(&run) == 0; tries++)
            nap();
        cr_assert(count_blamed(&run) == 1, "nothing is being compiled");
        kill(program, signals[n]);
        cr_assert(waitpid(program, &status, 0) == program);
        const int ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        cr_expect(ended_by == signals[n], "%d", ended_by);
        cr_assert(count_blamed(&run) == 0, "after signal %d", signals[n]);
    }
    setenv("TUNE_FAULTS", "", 1);
    cr_assert(tune_run(&run, FAULTY_PROGRAM, "show '" SMALL "'") == 0, "%s", run.text);
    cr_expect(tune_says(&run, "ended the process") == false, "%s", run.text);
    tune_run_close(&run);
}
