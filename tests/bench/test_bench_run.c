/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench run: what is shown and kept when all goes well, and when it does not. */
#define _XOPEN_SOURCE 700 /* posix_spawn, setenv, strdup */
#include "bench/fleet/progress.h"
#include "bench/records/results.h"
#include "bench/timing/cold_start.h"
#include "tests/bench/bench_program.h"

#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
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

extern char **environ;

static const char *json_path;

/* The scratch folder is also the program's for temporary files. */
static void open_folder(void)
{
    scratch_open();
    json_path = strdup(scratch_path("run.json"));
    setenv("TMPDIR", scratch, 1);
}

TestSuite(bench_run, .init = open_folder, .fini = scratch_close);

/* Runs with the arguments and --json; the file must be what the reader takes. */
static json_t *run(const int status, const char *words, const char *arguments)
{
    struct run_results results;
    struct message why;

    json_t *object = bench_json(status, words, "%s", arguments);
    cr_assert(results_read(json_path, &results, &why), "%s", why.text);
    results_free(&results);
    return object;
}

static void check_has(const char *text, const char *part)
{
    cr_assert(text && strstr(text, part) != NULL, "there is no '%s' in: %s", part, text);
}

/* ---- other libraries ------------------------------------------------------------------------- */

struct habit {
    char habit[32]; /* How the fake peer misbehaves. */
    char state[16];
    char says[64];
};

ParameterizedTestParameters(bench_run, peers) {
    static const struct habit habits[] = {
        {"right@result", "measured", "Fake 1.0"},
        {"half@result", "loose", "Fake"},
        {"wrong@result", "wrong", "wrong: a result is off by"},
        {"nan@result", "wrong", "wrong: a result is off by"},
        {"unsupported@open", "unsupported", "unsupported: no "},
        {"crash@open", "failed", "failed: Fake was killed by signal 6"},
        {"crash@sample", "failed", "failed: Fake was killed by signal 6"},
        {"crash@result", "failed", "failed: Fake was killed by signal 6"},
    };
    static struct habit taken[sizeof habits / sizeof *habits];
    size_t numbers[sizeof habits / sizeof *habits];
    const size_t count = numbers_taken(sizeof habits / sizeof *habits, 0, 2, numbers);

    for (size_t n = 0; n < count; n++)
        taken[n] = habits[numbers[n]];
    return cr_make_param_array(struct habit, taken, count);
}

/* Whatever another library does, clattn's own row stays and the run has succeeded; a time is given
 * only with right results. A run takes some of the habits. */
ParameterizedTest(struct habit *habit, bench_run, peers) {
    const bool timed = strcmp(habit->state, "measured") == 0 || strcmp(habit->state, "loose") == 0;

    setenv("FAKE_PEER", habit->habit, 1);
    json_t *object = run(0, habit->says, FAST SMALL " --peers " FAKE_PEER);
    const json_t *clattn = bench_row(object, 0, "clattn"), *fake = bench_row(object, 0, "Fake");
    json_must_be(clattn, "state", "measured");
    cr_assert(eq(sz, bench_samples(clattn), 2));
    json_must_be(fake, "state", habit->state);
    cr_assert(eq(sz, bench_samples(fake), timed ? 2 : 0));
    cr_assert(eq(int, json_is_null(json_at(fake, "ratio")), !timed));
    cr_assert(eq(int, json_is_null(json_at(fake, "gflops")), !timed));
    bench_check_width();
    json_decref(object);
}

Test(bench_run, a_peer_that_crashes_is_started_anew_but_not_for_ever) {
    const char *const says[] = {"was killed", "was killed", "was killed", "was killed",
                                "4 times and is not started anew"};

    setenv("FAKE_PEER", "crash@open", 1);
    json_t *object =
        run(0, "",
            "run --no-first-call --repeat 1 --peers " FAKE_PEER
            " 'fwd f32 q1 d8' 'fwd f32 q2 d8' 'fwd f32 q3 d8' 'fwd f32 q4 d8' 'fwd f32 q5 d8'");
    for (size_t n = 0; n < 5; n++)
        check_has(json_text_at(bench_row(object, n, "Fake"), "why"), says[n]);
    json_decref(object);
}

Test(bench_run, who_is_missing_is_named_once) {
    setenv("FAKE_PEER", "missing@hello", 1);
    json_t *object = run(0, "", FAST "'fwd f32 q1 d8' 'fwd f32 q2 d8' --peers " FAKE_PEER);
    check_has(json_text_at(object, "devices.0.peers.0.missing"), "no module named fake");
    cr_assert(eq(sz, json_size_at(bench_result(object, 0), "implementations"), 1));
    const char *first = strstr(program_text, "no module named fake");
    cr_assert(first != NULL && strstr(first + 1, "no module named fake") == NULL, "%s",
              program_text);
    json_decref(object);
}

/* ---- clattn ---------------------------------------------------------------------------------- */

Test(bench_run, a_wrong_result_has_no_time) {
    const char *path = scratch_path("spoilt.safetensors");
    char call[256];

    bench_copy_layer(path, 0, true);
    snprintf(call, sizeof call, FAST "--peers none %s " SMALL, path);
    json_t *object = run(1, "wrong: a result is off by", call);
    const json_t *wrong = bench_row(object, 0, "clattn");
    json_must_be(wrong, "state", "wrong");
    cr_assert(eq(sz, bench_samples(wrong), 0));
    cr_assert(eq(int, json_is_null(json_at(wrong, "gbytes")), 1));
    cr_assert(eq(int, json_is_null(json_at(bench_result(object, 0), "roof_share")), 1));
    cr_assert(eq(sz, bench_samples(bench_row(object, 1, "clattn")), 2));
    json_decref(object);
}

Test(bench_run, patience_has_an_end) {
    json_t *object =
        run(1, "failed: too slow: an execution took", FAST "--peers none --patience 1e-7 " SMALL);
    json_must_be(bench_row(object, 0, "clattn"), "state", "failed");
    cr_assert(eq(sz, bench_samples(bench_row(object, 0, "clattn")), 0));
    json_decref(object);
}

Test(bench_run, what_nothing_can_compute_costs_its_own_row) {
    json_t *object = run(1, "largest allocation",
                         FAST "--peers none 'fwd f32 h1 q2000000 d8 scores=raw' " SMALL);
    json_must_be(bench_row(object, 0, "clattn"), "state", "unsupported");
    json_must_be(bench_row(object, 1, "clattn"), "state", "measured");
    json_decref(object);
}

Test(bench_run, the_first_call_is_measured_without_and_with_caches) {
    json_t *object = run(0, "", "run --peers none --repeat 1 " SMALL);
    const json_t *first = json_at(bench_row(object, 0, "clattn"), "first_milliseconds");
    cr_assert(gt(dbl, json_number_at(first, "source"), 0.0), "%s", program_text);
    cr_assert(gt(dbl, json_number_at(first, "cache"), 0.0), "%s", program_text);
    for (size_t n = 0; n < COLD_START_PARTS; n++)
        cr_assert(gt(dbl, json_number_at(json_at(first, "parts"), cold_start_part_keys[n]), 0.0),
                  "%s", cold_start_part_keys[n]);
    cr_assert(eq(sz, scratch_entries(scratch), 1), "more than run.json is left");
    json_decref(object);
}

/* ---- what is printed ------------------------------------------------------------------------- */

Test(bench_run, quiet_prints_nothing_and_dash_nothing_else) {
    program_must(BENCH_PROGRAM, 0, "", FAST "--peers none --quiet " SMALL);
    cr_assert(eq(sz, strlen(program_text), 0), "%s", program_text);
    program_must(BENCH_PROGRAM, 0, "", FAST "--peers none --json - " SMALL);
    json_decref(json_printed());
}

Test(bench_run, filters_by_workload_and_by_text) {
    json_t *object = run(0, "", FAST "--peers none --filter q256 --workload minilm " SMALL);
    json_must_be(bench_result(object, 0), "problem", "fwd f32 b1 h12 q256 k256 d32");
    json_must_be(bench_result(object, 0), "name", "minilm");
    cr_assert(bench_result(object, 1) == NULL);
    json_decref(object);
}

Test(bench_run, where_results_cannot_go_nothing_is_measured) {
    program_must(BENCH_PROGRAM, 1, "/nonexistent/run.json: the results cannot be written",
                 FAST "--peers none --json /nonexistent/run.json " SMALL);
    cr_assert(not(program_said("clattn  ")), "%s", program_text);
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
    setenv(PROGRESS_HEARTBEAT, number, 1);
    cr_assert(eq(int,
                 posix_spawn(&child.pid, BENCH_PROGRAM, &files, NULL, (char *const *)argv, environ),
                 0));
    unsetenv(PROGRESS_HEARTBEAT);
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
    json_t *object = json_file(json_path);
    cr_assert(eq(int, json_is_true(json_at(object, "devices.0.interrupted")), 1));
    cr_assert(lt(sz, bench_samples(bench_row(object, 0, "clattn")), 100));
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

/* The driver loses the device in the second of these. */
#define LOST_SECOND "'fwd f32 h2 q33 d24' 'fwd f32 h7 q33 d24' 'fwd f32 h2 q65 d24'"

/* Results measured before the device is lost are kept, the problem at which it was lost says so,
 * and no further one is tried. */
Test(bench_run, device_disappears) {
    setenv("LD_PRELOAD", LOST_DEVICE, 1);
    json_t *object = run(1, "does not answer any more", FAST "--peers none " LOST_SECOND);
    unsetenv("LD_PRELOAD");
    cr_assert(eq(sz, json_size_at(object, "devices.0.results"), 2));
    json_must_be(bench_row(object, 0, "clattn"), "state", "measured");
    json_must_be(bench_row(object, 1, "clattn"), "state", "failed");
    check_has(json_text_at(object, "devices.0.failed"), "does not answer any more");
    json_decref(object);
}

/* The first of two problems is measured, the second ends in the driver. */
static void end_in_driver(const char *how, unsigned timeout, const char *says)
{
    char call[512];
    json_t *object = NULL;
    size_t measured = 0;

    setenv("LD_PRELOAD", LOST_DEVICE, 1);
    setenv("LOST_DEVICE", how, 1);
    /* The first needs a compiler, which may be silent for longer than that on a busy machine. */
    for (; measured == 0; timeout *= 4) {
        cr_assert(timeout < 1000, "%s", program_text);
        json_decref(object);
        snprintf(call, sizeof call, FAST "--peers none --timeout %u " LOST_SECOND, timeout);
        object = run(1, "", call);
        measured = json_size_at(object, "devices.0.results");
    }
    unsetenv("LD_PRELOAD");
    cr_assert(eq(sz, measured, 1));
    json_must_be(bench_row(object, 0, "clattn"), "state", "measured");
    const char *failed = json_text_at(object, "devices.0.failed");
    check_has(failed, says);
    check_has(failed, " while it did 'fwd f32 b1 h7 q33 k33 d24");
    check_has(program_text, failed);
    check_has(program_text, "fwd f32 b1 h2 q33 k33 d24"); /* the row was printed */
    json_decref(object);
}

Test(bench_run, driver_hangs) {
    end_in_driver("hang", 3, "gave no sign of life for ");
}

Test(bench_run, driver_crashes) {
    end_in_driver("crash", 60, "the driver crashed: killed by signal 6");
}

/* ---- ranks ------------------------------------------------------------------------------------ */

/* Where there is no MPI the program of ranks is missing, beside this one and on the PATH. */
Test(bench_run, ranks_need_their_program) {
    program_must("/bin/cp", 0, "", "%s %s", BENCH_PROGRAM, scratch);
    const char *alone = strdup(scratch_path("clattn-bench"));
    setenv("PATH", scratch, 1);
    program_must(alone, 2, "--mpi needs the program clattn-bench-mpi", "run --mpi " SMALL);
}
