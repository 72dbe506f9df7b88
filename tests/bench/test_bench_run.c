/* clattn-bench run: what is shown and kept when all goes well, and when it does not. */
#define _XOPEN_SOURCE 700 /* posix_spawn, nftw, mkdtemp, setenv */
#include "bench/commands/table.h"
#include "bench/fleet/outlook.h"
#include "bench/records/results.h"
#include "bench/timing/first.h"
#include "tests/bench/bench_program.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SMALL "'fwd f32 h2 q33 d24'"
#define FAST "run --no-first-call --repeat 2 "
#define LAYER_0 TEST_DATA "/minilm/minilm_layer_0.safetensors"

extern char **environ;

static char folder[] = "/tmp/clattn_run_XXXXXX", json_path[64], csv_path[64];

/* A folder of its own for each test, which is also the program's for temporary files. */
static void open_folder(void)
{
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(json_path, sizeof json_path, "%s/run.json", folder);
    snprintf(csv_path, sizeof csv_path, "%s/run.csv", folder);
    setenv("TMPDIR", folder, 1);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static void close_folder(void)
{
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(bench_run, .init = open_folder, .fini = close_folder);

/* Runs with `arguments` and --json; the file must be what the reader takes. */
static json_t *run(const char *arguments, int status, char *text, size_t text_bytes)
{
    struct run_results results;
    struct message why;
    char call[768];

    snprintf(call, sizeof call, "%s --json %s", arguments, json_path);
    cr_assert(eq(int, bench_run(call, text, text_bytes), status), "%s: %s", call, text);
    cr_assert(results_read(json_path, &results, &why), "%s", why.text);
    results_free(&results);
    return bench_load(json_path);
}

static const json_t *device(const json_t *run)
{
    return json_array_get(json_object_get(run, "devices"), 0);
}

static void check_has(const char *text, const char *part)
{
    cr_assert(strstr(text, part) != NULL, "there is no '%s' in: %s", part, text);
}

/* ---- other libraries ------------------------------------------------------------------------- */

struct habit {
    char habit[32]; /* Of the fake peer. */
    char state[16];
    char says[64];
};

ParameterizedTestParameters(bench_run, peers) {
    static struct habit habits[] = {
        {"right@result", "measured", "Fake 1.0"},
        {"half@result", "loose", "Fake"},
        {"wrong@result", "wrong", "wrong: a result is off by"},
        {"nan@result", "wrong", "wrong: a result is off by"},
        {"unsupported@open", "unsupported", "unsupported: no "},
        {"crash@open", "failed", "failed: Fake was killed by signal 6"},
        {"crash@sample", "failed", "failed: Fake was killed by signal 6"},
        {"crash@result", "failed", "failed: Fake was killed by signal 6"},
    };
    return cr_make_param_array(struct habit, habits, sizeof habits / sizeof *habits);
}

/* Whatever another library does, clattn's own row stays and the run has succeeded; a time is given
 * only with right results. */
ParameterizedTest(struct habit *habit, bench_run, peers) {
    const bool timed = strcmp(habit->state, "measured") == 0 || strcmp(habit->state, "loose") == 0;
    char text[8192];

    setenv("FAKE_PEER", habit->habit, 1);
    json_t *object = run(FAST SMALL " --peers " FAKE_PEER, 0, text, sizeof text);
    const json_t *clattn = bench_implementation(bench_result(object, 0), "clattn");
    const json_t *fake = bench_implementation(bench_result(object, 0), "Fake");
    bench_check_text(clattn, "state", "measured");
    cr_assert(eq(sz, bench_samples(clattn), 2));
    bench_check_text(fake, "state", habit->state);
    cr_assert(eq(sz, bench_samples(fake), timed ? 2 : 0));
    cr_assert(eq(int, json_is_null(json_object_get(fake, "ratio")), !timed));
    cr_assert(eq(int, json_is_null(json_object_get(fake, "gflops")), !timed));
    check_has(text, habit->says);
    bench_check_width(text);
    json_decref(object);
}

Test(bench_run, a_peer_that_crashes_is_started_anew_but_not_for_ever) {
    const char *const says[] = {"was killed", "was killed", "was killed", "was killed",
                                "4 times and is not started anew"};
    char text[16384];

    setenv("FAKE_PEER", "crash@open", 1);
    json_t *object =
        run("run --no-first-call --repeat 1 --peers " FAKE_PEER
            " 'fwd f32 q1 d8' 'fwd f32 q2 d8' 'fwd f32 q3 d8' 'fwd f32 q4 d8' 'fwd f32 q5 d8'",
            0, text, sizeof text);
    for (size_t n = 0; n < 5; n++) {
        const json_t *fake = bench_implementation(bench_result(object, n), "Fake");
        check_has(json_string_value(json_object_get(fake, "why")), says[n]);
    }
    json_decref(object);
}

Test(bench_run, who_is_missing_is_named_once) {
    char text[8192];

    setenv("FAKE_PEER", "missing@hello", 1);
    json_t *object =
        run(FAST "'fwd f32 q1 d8' 'fwd f32 q2 d8' --peers " FAKE_PEER, 0, text, sizeof text);
    const json_t *note = json_array_get(json_object_get(device(object), "peers"), 0);
    check_has(json_string_value(json_object_get(note, "missing")), "no module named fake");
    cr_assert(
        eq(sz, json_array_size(json_object_get(bench_result(object, 0), "implementations")), 1));
    const char *first = strstr(text, "no module named fake");
    cr_assert(first != NULL && strstr(first + 1, "no module named fake") == NULL, "%s", text);
    json_decref(object);
}

/* ---- clattn ---------------------------------------------------------------------------------- */

/* The answer in the file is spoilt, so that all results are wrong. */
static void spoil_layer(const char *path)
{
    FILE *from = fopen(LAYER_0, "rb"), *to = fopen(path, "wb");
    int c, last = EOF;

    while ((c = getc(from)) != EOF) {
        if (last != EOF)
            putc(last, to);
        last = c;
    }
    putc(last ^ 0x80, to); /* the sign of the last element of V, which all queries see */
    fclose(from);
    fclose(to);
}

Test(bench_run, a_wrong_result_has_no_time) {
    char path[64], call[256], text[8192];

    snprintf(path, sizeof path, "%s/spoilt.safetensors", folder);
    spoil_layer(path);
    snprintf(call, sizeof call, FAST "--peers none %s " SMALL, path);
    json_t *object = run(call, 1, text, sizeof text);
    const json_t *wrong = bench_implementation(bench_result(object, 0), "clattn");
    bench_check_text(wrong, "state", "wrong");
    cr_assert(eq(sz, bench_samples(wrong), 0));
    cr_assert(eq(int, json_is_null(json_object_get(wrong, "gbytes")), 1));
    cr_assert(eq(int, json_is_null(json_object_get(bench_result(object, 0), "roof_share")), 1));
    cr_assert(eq(sz, bench_samples(bench_implementation(bench_result(object, 1), "clattn")), 2));
    check_has(text, "wrong: a result is off by");
    json_decref(object);
}

Test(bench_run, patience_has_an_end) {
    char text[8192];

    json_t *object = run(FAST "--peers none --patience 1e-7 " SMALL, 1, text, sizeof text);
    const json_t *slow = bench_implementation(bench_result(object, 0), "clattn");
    bench_check_text(slow, "state", "failed");
    cr_assert(eq(sz, bench_samples(slow), 0));
    check_has(text, "failed: too slow: an execution took");
    json_decref(object);
}

Test(bench_run, what_nothing_can_compute_costs_its_own_row) {
    char text[8192];

    json_t *object =
        run(FAST "--peers none 'fwd f32 h1 q60000 d8 scores=raw' " SMALL, 1, text, sizeof text);
    const json_t *impossible = bench_implementation(bench_result(object, 0), "clattn");
    bench_check_text(impossible, "state", "unsupported");
    bench_check_text(bench_implementation(bench_result(object, 1), "clattn"), "state", "measured");
    check_has(text, "largest allocation");
    json_decref(object);
}

static size_t count_entries(const char *path)
{
    DIR *stream = opendir(path);
    size_t count = 0;

    while (readdir(stream) != NULL)
        count++;
    closedir(stream);
    return count - 2; /* itself and its parent */
}

Test(bench_run, the_first_call_is_measured_without_and_with_caches) {
    char text[8192];

    json_t *object = run("run --peers none --repeat 1 " SMALL, 0, text, sizeof text);
    const json_t *clattn = bench_implementation(bench_result(object, 0), "clattn");
    const json_t *first = json_object_get(clattn, "first_milliseconds");
    cr_assert(gt(dbl, json_real_value(json_object_get(first, "source")), 0.0), "%s", text);
    cr_assert(gt(dbl, json_real_value(json_object_get(first, "cache")), 0.0), "%s", text);
    for (size_t n = 0; n < FIRST_PARTS; n++) {
        const json_t *parts = json_object_get(first, "parts");
        cr_assert(gt(dbl, json_real_value(json_object_get(parts, first_part_keys[n])), 0.0), "%s",
                  first_part_keys[n]);
    }
    cr_assert(eq(sz, count_entries(folder), 1), "more than run.json is left");
    json_decref(object);
}

/* ---- what is printed ------------------------------------------------------------------------- */

Test(bench_run, quiet_prints_nothing_and_dash_nothing_else) {
    char call[256], text[16384];
    json_error_t error;

    cr_assert(eq(int, bench_run(FAST "--peers none --quiet " SMALL, text, sizeof text), 0));
    cr_assert(eq(sz, strlen(text), 0), "%s", text);
    cr_assert(eq(int, bench_run(FAST "--peers none --json - " SMALL, text, sizeof text), 0));
    json_t *object = json_loads(text, 0, &error);
    cr_assert(object != NULL, "%s: %s", error.text, text);
    json_decref(object);
    snprintf(call, sizeof call, FAST "--peers none --csv - --json %s " SMALL, json_path);
    cr_assert(eq(int, bench_run(call, text, sizeof text), 0), "%s", text);
    cr_assert(strncmp(text, "date,", 5) == 0, "%s", text);
    check_has(text, "fwd f32 b1 h2 q33 k33 d24,clattn,");
}

Test(bench_run, quiet_still_says_what_failed) {
    char text[4096];

    cr_assert(eq(
        int, bench_run(FAST "--peers none --quiet --patience 1e-7 " SMALL, text, sizeof text), 1));
    check_has(text, "clattn-bench run: fwd f32 b1 h2 q33 k33 d24: clattn failed: too slow");
}

Test(bench_run, filters_by_workload_and_by_text) {
    char text[8192];

    json_t *object =
        run(FAST "--peers none --filter q256 --workload minilm " SMALL " --csv /dev/null", 0, text,
            sizeof text);
    bench_check_text(bench_result(object, 0), "problem", "fwd f32 b1 h12 q256 k256 d32");
    bench_check_text(bench_result(object, 0), "name", "minilm");
    cr_assert(bench_result(object, 1) == NULL);
    json_decref(object);
}

Test(bench_run, where_results_cannot_go_nothing_is_measured) {
    char text[4096];

    const int status =
        bench_run(FAST "--peers none --json /nonexistent/run.json " SMALL, text, sizeof text);
    cr_assert(eq(int, status, 1));
    check_has(text, "/nonexistent/run.json: the results cannot be written");
    cr_assert(strstr(text, "clattn  ") == NULL, "%s", text);
}

/* ---- being ended ----------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    FILE *heart; /* What it says that it does. */
};

static struct child start(const char *const *argv)
{
    posix_spawn_file_actions_t files;
    struct child child;
    int ends[2];
    char number[16];

    cr_assert(eq(int, pipe(ends), 0));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addclose(&files, ends[0]);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv(OUTLOOK_HEARTBEAT, number, 1);
    cr_assert(eq(int,
                 posix_spawn(&child.pid, BENCH_PROGRAM, &files, NULL, (char *const *)argv, environ),
                 0));
    unsetenv(OUTLOOK_HEARTBEAT);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    child.heart = fdopen(ends[0], "r");
    return child;
}

static void wait_until_it_does(struct child *child, const char *what)
{
    char line[256];

    while (fgets(line, sizeof line, child->heart) != NULL)
        if (strstr(line, what) != NULL)
            return;
    cr_assert(false, "it never did '%s'", what);
}

static int end(struct child *child)
{
    int status;

    cr_assert(eq(int, waitpid(child->pid, &status, 0), child->pid));
    fclose(child->heart);
    return status;
}

Test(bench_run, an_interrupt_keeps_what_was_measured) {
    const char *const argv[] = {"clattn-bench",    "run", "--peers", "none",    "--no-first-call",
                                "--repeat",        "100", "--json",  json_path, "fwd f32 q16 d16",
                                "fwd f32 q17 d16", NULL};
    const struct timespec nap = {1, 0};

    struct child child = start(argv);
    wait_until_it_does(&child, "q16 k16");
    nanosleep(&nap, NULL);
    kill(child.pid, SIGINT);
    const int status = end(&child);
    cr_assert(eq(int, WIFEXITED(status) != 0, 1));
    cr_assert(eq(int, WEXITSTATUS(status), 130));
    json_t *object = bench_load(json_path);
    cr_assert(eq(int, json_is_true(json_object_get(device(object), "interrupted")), 1));
    cr_assert(lt(sz, bench_samples(bench_implementation(bench_result(object, 0), "clattn")), 100));
    cr_assert(bench_result(object, 1) == NULL);
    json_decref(object);
}

Test(bench_run, a_crash_costs_only_the_problem_that_was_running) {
    const char *const argv[] = {"clattn-bench",    "run", "--peers", "none",    "--no-first-call",
                                "--repeat",        "1",   "--json",  json_path, "fwd f32 q16 d16",
                                "fwd f32 q17 d16", NULL};
    struct run_results results;
    struct message why;

    struct child child = start(argv);
    wait_until_it_does(&child, "q17 k17");
    kill(child.pid, SIGKILL);
    end(&child);
    cr_assert(results_read(json_path, &results, &why), "%s", why.text);
    cr_assert(eq(sz, results.devices[0].count, 1));
    cr_assert(strcmp(results.devices[0].records[0].problem, "fwd f32 b1 h1 q16 k16 d16") == 0);
    results_free(&results);
}

/* ---- a device that disappears ---------------------------------------------------------------- */

/* What was measured is kept, the problem that met the loss says so, and no further one is tried. */
Test(bench_run, device_disappears) {
    char text[8192];

    setenv("LD_PRELOAD", LOST_DEVICE, 1);
    json_t *object = run(FAST "--peers none 'fwd f32 h2 q33 d24' 'fwd f32 h7 q33 d24' "
                              "'fwd f32 h2 q65 d24'",
                         1, text, sizeof text);
    unsetenv("LD_PRELOAD");
    const json_t *results = json_object_get(device(object), "results");
    cr_assert(eq(sz, json_array_size(results), 2));
    bench_check_text(bench_implementation(bench_result(object, 0), "clattn"), "state", "measured");
    bench_check_text(bench_implementation(bench_result(object, 1), "clattn"), "state", "failed");
    const char *failed = json_string_value(json_object_get(device(object), "failed"));
    cr_assert(failed != NULL);
    check_has(failed, "does not answer any more");
    check_has(text, "does not answer any more");
    json_decref(object);
}

/* The first of two problems is measured, the second ends in the driver. */
static void end_in_driver(const char *how, unsigned timeout, const char *says)
{
    char text[8192], call[512];
    json_t *object = NULL;
    size_t measured = 0;

    setenv("LD_PRELOAD", LOST_DEVICE, 1);
    setenv("LOST_DEVICE", how, 1);
    /* The first needs a compiler, which may be silent for longer than that on a busy machine. */
    for (; measured == 0; timeout *= 4) {
        cr_assert(timeout < 1000, "%s", text);
        json_decref(object);
        snprintf(call, sizeof call, FAST "--peers none --timeout %u --csv %s %s", timeout, csv_path,
                 "'fwd f32 h2 q33 d24' 'fwd f32 h7 q33 d24' 'fwd f32 h2 q65 d24'");
        object = run(call, 1, text, sizeof text);
        measured = json_array_size(json_object_get(device(object), "results"));
    }
    unsetenv("LD_PRELOAD");
    cr_assert(eq(sz, measured, 1));
    bench_check_text(bench_implementation(bench_result(object, 0), "clattn"), "state", "measured");
    const char *failed = json_string_value(json_object_get(device(object), "failed"));
    cr_assert(failed != NULL);
    check_has(failed, says);
    check_has(failed, " while it did 'fwd f32 b1 h7 q33 k33 d24");
    check_has(text, failed);
    check_has(text, "fwd f32 b1 h2 q33 k33 d24"); /* the row was printed */
    FILE *csv = fopen(csv_path, "r");
    cr_assert(csv != NULL && fgets(text, sizeof text, csv) && fgets(text, sizeof text, csv));
    fclose(csv);
    check_has(text, ",clattn," CLATTN_VERSION_STRING ",measured,");
    json_decref(object);
}

Test(bench_run, driver_hangs) {
    end_in_driver("hang", 3, "gave no sign of life for ");
}

Test(bench_run, driver_crashes) {
    end_in_driver("crash", 60, "the driver crashed: killed by signal 6");
}

Test(bench_run, a_timeout_is_a_number) {
    char text[2048];

    cr_assert(eq(int, bench_run("run --timeout soon " SMALL, text, sizeof text), 2));
    check_has(text, "clattn-bench run: --timeout");
}
