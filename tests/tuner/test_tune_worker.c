/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that answers, hangs, dies or talks nonsense; shells stand in for the worker. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "cli/worker_process.h"
#include "families/candidate.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "tests/tuner/tune_program.h"
#include "tuner/worker/worker_client.h"
#include "tuner/worker/worker_json.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The client of a test whose worker is a script. */
static struct {
    char path[256]; /* of the script */
    struct ca_worker *worker;
    struct ca_measurer m;
    struct ca_candidate candidates[3]; /* their first values differ: 4, 8, 16 */
} client;

static void end(void)
{
    ca_worker_destroy(client.worker);
    scratch_close();
}

TestSuite(tune_worker, .init = tune_open, .fini = end);

static bool for_ever(void *user)
{
    (void)user;
    return true;
}

static bool never(void *user)
{
    (void)user;
    return false;
}

static void start(struct ca_process *process, const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct message why;

    signal(SIGPIPE, SIG_IGN);
    cr_assert(ca_process_start(process, argv, NULL, &why), "%s", why.text);
}

struct behaviour {
    char script[200];
    enum ca_asked asked;
    char how[60];
};

ParameterizedTestParameters(tune_worker, behaves) {
    static struct behaviour list[] = {
        {"read x <&3; echo '{\"answer\": 1}' >&4; sleep 9", CA_ANSWERED, ""},
        {"read x <&3; echo chatter; echo '{\"a\":' >&4; sleep 0.1; echo '2}' >&4", CA_DIED,
         "nonsense"},
        {"read x <&3; echo '[1]' >&4", CA_ANSWERED, ""},
        {"read x <&3; sleep 60", CA_LATE, "took longer than 1 s"},
        {"read x <&3; echo first; echo out of luck; exit 7", CA_DIED,
         "exited with status 7, saying 'out of luck'"},
        {"exit 0", CA_DIED, "exited with status 0"},
        {"read x <&3; kill -SEGV $$", CA_DIED, "killed by signal 11"},
        {"read x <&3; echo nonsense >&4; sleep 60", CA_DIED, "answered nonsense"},
        {"read x <&3; yes | tr -d '\\n' >&4", CA_DIED, "fell silent"}, /* a line without an end */
        {"exec 4>&-; sleep 60", CA_DIED, "fell silent"},
    };
    return cr_make_param_array(struct behaviour, list, sizeof list / sizeof *list);
}

ParameterizedTest(struct behaviour *b, tune_worker, behaves) {
    struct ca_process process;
    struct message how = {""};
    json_t *answer;

    start(&process, b->script);
    const pid_t pid = process.child.number;
    const enum ca_asked asked = ca_process_ask(&process, json_pack("{s:s}", "do", "it"), 1.0,
                                               for_ever, NULL, &answer, &how);
    cr_assert(eq(int, (int)asked, (int)b->asked), "%s: %s", b->script, how.text);
    cr_assert(strstr(how.text, b->how) != NULL, "%s: %s", b->script, how.text);
    cr_assert(asked == CA_ANSWERED ? answer != NULL : !answer);
    json_decref(answer);
    ca_process_end(&process);
    cr_assert(kill(pid, 0) == -1 && errno == ESRCH, "%s: it lives on", b->script);
}

/* Processes that it has started itself end, too. */
Test(tune_worker, ends_with_its_children) {
    struct ca_process process;
    struct message how;
    json_t *answer;

    start(&process, "sleep 1000 & echo \"{\\\"pid\\\": $!}\" >&4; wait");
    cr_assert(ca_process_ask(&process, json_object(), 10.0, for_ever, NULL, &answer, &how) ==
              CA_ANSWERED);
    const pid_t child = (pid_t)json_integer_value(json_object_get(answer, "pid"));
    json_decref(answer);
    cr_assert(child > 0 && kill(child, 0) == 0);
    ca_process_end(&process);
    for (int n = 0; n < 100 && kill(child, 0) == 0; n++) /* until someone has taken note of it */
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    FILE *stat = NULL;
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)child);
    stat = fopen(path, "r");
    if (stat) {
        cr_expect(fscanf(stat, "%*d %*s %c", &state) == 1);
        fclose(stat);
    }
    cr_assert(state == 'Z', "it is in state %c", state);
}

Test(tune_worker, is_asked_no_more_without_patience) {
    struct ca_process process;
    struct message how;
    json_t *answer;

    start(&process, "sleep 60");
    cr_assert(ca_process_ask(&process, json_object(), 30.0, never, NULL, &answer, &how) ==
              CA_STOPPED);
    cr_assert(answer == NULL && process.child.number == 0);
}

Test(tune_worker, cannot_be_started) {
    const char *const argv[] = {"/nonexistent/program", NULL};
    struct ca_process process;
    struct message why = {""};

    cr_assert(ca_process_start(&process, argv, NULL, &why) == false);
    cr_assert(strstr(why.text, "/nonexistent/program") != NULL, "%s", why.text);
    cr_assert(process.child.number == 0);
}

/* ---- readings and candidates ----------------------------------------------------------------- */

Test(tune_worker, readings_come_through) {
    const struct ca_reading sent = {.outcome = CA_TIMED_OUT,
                                    .times = {1e-3, 1.0 / 3.0},
                                    .num_times = 2,
                                    .error = INFINITY,
                                    .binary = 0xfedcba9876543210u,
                                    .compile_seconds = 0.1,
                                    .reason = "a \"reason\" of bytes \xff\xfe"};
    struct ca_reading got;

    json_t *object = ca_reading_json(&sent);
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_t *back = json_loads(line, 0, NULL);
    cr_assert(ca_reading_from_json(back, &got), "%s", line);
    cr_assert(got.outcome == sent.outcome && got.num_times == 2 && got.binary == sent.binary);
    cr_assert(got.times[1] == sent.times[1] && isinf(got.error) && got.compile_seconds == 0.1);
    cr_assert_str_eq(got.reason, "a \"reason\" of bytes ??");
    json_decref(back);
    json_decref(object);
    free(line);
}

struct text {
    char text[300];
};

#define READING(outcome, times, error, binary)                                                     \
    "{\"outcome\": " outcome ", \"times\": " times ", \"error\": " error ", \"binary\": " binary   \
    ", \"compile\": 0, \"reason\": \"\"}"

ParameterizedTestParameters(tune_worker, refuses_as_a_reading) {
    static struct text list[] = {
        {"{}"},
        {"[]"},
        {"17"},
        {READING("\"splendid\"", "[1]", "0", "\"0\"")},
        {READING("1", "[1]", "0", "\"0\"")},
        {READING("\"correct\"", "[-1]", "0", "\"0\"")},
        {READING("\"correct\"", "[0]", "0", "\"0\"")},
        {READING("\"correct\"", "[\"1\"]", "0", "\"0\"")},
        {READING("\"correct\"", "1", "0", "\"0\"")},
        {READING("\"correct\"", "[1]", "-1", "\"0\"")},
        {READING("\"correct\"", "[1]", "\"0\"", "\"0\"")},
        {READING("\"correct\"", "[1]", "0", "\"x\"")},
        {READING("\"correct\"", "[1]", "0", "\"11112222333344445\"")},
    };
    return cr_make_param_array(struct text, list, sizeof list / sizeof *list);
}

ParameterizedTest(struct text *t, tune_worker, refuses_as_a_reading) {
    json_t *object = json_loads(t->text, JSON_DECODE_ANY, NULL);
    struct ca_reading reading;

    cr_assert(object != NULL, "%s", t->text);
    cr_assert(ca_reading_from_json(object, &reading) == false, "%s", t->text);
    json_decref(object);
}

Test(tune_worker, candidates_come_through) {
    const struct ca_family *family = &ca_fused_cpu_vector;
    struct ca_candidate sent = {.family = family}, got;

    ca_tunables_default(family->tunables, family->num_tunables, sent.values);
    json_t *object = ca_candidate_json(&sent);
    cr_assert(ca_candidate_from_json(object, &got) && ca_candidates_equal(&sent, &got));
    json_array_set_new(json_object_get(object, "values"), 0, json_integer(12345));
    cr_assert(ca_candidate_from_json(object, &got) == false, "12345 is no candidate");
    json_array_remove(json_object_get(object, "values"), 0);
    cr_assert(ca_candidate_from_json(object, &got) == false, "a value is missing");
    json_object_set_new(object, "family", json_string("nonsense"));
    cr_assert(ca_candidate_from_json(object, &got) == false, "no family has that name");
    json_decref(object);
}

/* ---- the client, with a script as its worker ------------------------------------------------- */

#define GOOD                                                                                       \
    "{\"outcome\":\"correct\",\"times\":[0.5],\"error\":0,\"binary\":\"1\",\"compile\":0,"         \
    "\"reason\":\"\"}"
#define BAD                                                                                        \
    "{\"outcome\":\"runtime\",\"times\":[],\"error\":0,\"binary\":\"0\",\"compile\":0,"            \
    "\"reason\":\"it failed\"}"

/* A worker that obeys a shell's `case` of the request; $n counts the builds of its process. */
static void open_client(const char *cases, ca_patience *patience)
{
    const struct ca_tunable *tunable = ca_fused_cpu_vector.tunables;
    clattn_problem problem;

    snprintf(client.path, sizeof client.path, "%s", scratch_path("worker"));
    FILE *file = fopen(client.path, "w");
    fprintf(file,
            "#!/bin/sh\nn=0\nwhile read x <&3; do\ncase \"$x\" in *build*) n=$((n + 1));; esac\n"
            "case \"$x\" in\n%s\n*open*) echo '{\"status\":0,\"reason\":\"\"}';;\n"
            "*round*) echo '{\"seconds\":[0.5,0.5,0.5]}';;\n*) echo '{\"reading\":" GOOD "}';;\n"
            "esac >&4\ndone\n",
            cases);
    fclose(file);
    cr_assert(chmod(client.path, 0700) == 0);
    signal(SIGPIPE, SIG_IGN);
    const struct ca_worker_options options = {
        .program = client.path, .device = "", .timeout = 1.0, .patience = patience};
    client.worker = ca_worker_create(&options);
    clattn_problem_parse("fwd f32 q64 d32", &problem, NULL, 0);
    const struct ca_problem made = ca_problem_own(&problem);
    cr_assert(ca_worker_open(client.worker, &made, 1, &client.m) == CLATTN_SUCCESS, "%s",
              ca_worker_broken(client.worker));
    for (size_t n = 0; n < 3; n++) {
        client.candidates[n] = (struct ca_candidate){.family = &ca_fused_cpu_vector};
        ca_tunables_default(tunable, ca_fused_cpu_vector.num_tunables, client.candidates[n].values);
        client.candidates[n].values[1] = tunable[1].candidates[n]; /* after UNIT */
    }
}

static struct ca_reading build(size_t n)
{
    struct ca_reading reading = {.outcome = CA_NUM_OUTCOMES};

    client.m.build(client.m.user, &client.candidates[n], &reading);
    return reading;
}

static void expect_build(size_t n, enum ca_outcome outcome)
{
    const struct ca_reading reading = build(n);

    cr_expect(eq(int, (int)reading.outcome, (int)outcome), "%zu: %s", n, reading.reason);
}

/* One that ends the worker in a race is found, and the others are not blamed. */
Test(tune_worker, a_race_goes_on_without_the_one_that_ends_the_worker) {
    double seconds[3];

    open_client("*round*'[1,8,'*) exit 5;;", for_ever);
    for (size_t n = 0; n < 3; n++)
        expect_build(n, CA_CORRECT);
    client.m.round(client.m.user, 0, client.candidates, 3, seconds);
    cr_expect(seconds[0] == 0.5 && isinf(seconds[1]) && seconds[2] == 0.5);
    cr_expect(ca_worker_restarts(client.worker) > 0);
    client.m.round(client.m.user, 0, &client.candidates[1], 1, seconds);
    cr_expect(isinf(seconds[0]) && client.m.failure(client.m.user) == CA_CRASHED);
}

/* A failure in a worker that has tried others counts only if a new one agrees. */
Test(tune_worker, the_second_candidate_is_not_blamed_for_the_first) {
    open_client("*build*) if [ $n -gt 1 ]; then exit 1; else echo '{\"reading\":" GOOD "}'; fi;;",
                for_ever);
    for (size_t n = 0; n < 3; n++)
        expect_build(n, CA_CORRECT);
    cr_expect(eq(sz, ca_worker_restarts(client.worker), 2));
}

/* Even one that was alone: the machine may have been at fault. */
Test(tune_worker, a_crash_or_a_hang_counts_if_it_comes_twice) {
    open_client("*build*'[1,4,'*) if mkdir $CLATTN_CACHE_DIR/crashed; then exit 1; fi\n"
                "echo '{\"reading\":" GOOD "}';;\n"
                "*build*'[1,8,'*) if mkdir $CLATTN_CACHE_DIR/hung; then sleep 60; fi\n"
                "echo '{\"reading\":" GOOD "}';;\n"
                "*build*'[1,16,'*) exit 1;;\n",
                for_ever);
    for (size_t n = 0; n < 2; n++)
        expect_build(n, CA_CORRECT);
    expect_build(2, CA_CRASHED);
}

/* Linux does so where memory is short. */
Test(tune_worker, to_be_killed_is_no_crash) {
    open_client("*build*) kill -KILL $$;;", for_ever);
    expect_build(0, CA_RUNTIME_FAILED);
}

/* A worker that the machine keeps from running does not count as hung, however often that
 * happens. */
Test(tune_worker, to_be_stopped_is_no_hang) {
    if (access("/proc/self/stat", R_OK) != 0)
        cr_skip_test("this system does not say what its processes do");
    open_client("*build*'[1,4,'*) kill -STOP $$;;\n*build*) sleep 60;;", for_ever);
    for (size_t n = 0; n < 2; n++) {
        const struct ca_reading reading = build(0);
        cr_expect(eq(int, (int)reading.outcome, (int)CA_RUNTIME_FAILED), "%s", reading.reason);
        cr_expect(strstr(reading.reason, "kept from running") != NULL, "%s", reading.reason);
    }
    expect_build(1, CA_TIMED_OUT);
}

/* Leaves this process one processor, which so many others want all of the time. */
static void crowd(pid_t *others, size_t count)
{
    cpu_set_t all, one;
    int first = 0;

    cr_assert(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    cr_assert(sched_setaffinity(0, sizeof one, &one) == 0);
    for (size_t n = 0; n < count; n++) {
        others[n] = fork();
        if (others[n] == 0)
            for (;;)
                alarm(60); /* and end, should the test not end them */
    }
}

Test(tune_worker, to_get_no_processor_is_no_hang) {
    enum { OTHERS = 6 };
    pid_t others[OTHERS];

    if (access("/proc/self/schedstat", R_OK) != 0)
        cr_skip_test("this system does not say how long its processes wait");
    crowd(others, OTHERS);
    open_client("*build*) while :; do :; done;;", for_ever);
    expect_build(0, CA_RUNTIME_FAILED);
    for (size_t n = 0; n < OTHERS; n++)
        kill(others[n], SIGKILL);
}

struct share {
    struct ca_processor_time end; /* from nothing, after 20 seconds */
    bool starved;
};

ParameterizedTestParameters(tune_worker, has_had_its_chance) {
    static struct share shares[] = {
        {{20.0, 0.0, false}, false},  /* it ran all of the time */
        {{11.0, 9.0, false}, false},  /* ... or most of it */
        {{0.0, 0.1, false}, false},   /* it slept: a device that never answers */
        {{38.0, 2.0, false}, false},  /* two threads */
        {{40.0, 280.0, false}, true}, /* sixteen, on two processors of others */
        {{2.0, 18.0, false}, true},   /* others ran */
        {{1.0, 5.0, false}, false},   /* ... for a while, then it slept */
        {{15.0, 12.0, false}, false}, /* a long wait, but more work */
        {{0.1, 0.0, true}, true},     /* stopped */
    };
    return cr_make_param_array(struct share, shares, sizeof shares / sizeof *shares);
}

ParameterizedTest(struct share *share, tune_worker, has_had_its_chance) {
    const struct ca_processor_time begin = {100.0, 50.0, false};
    struct ca_processor_time end = share->end;

    end.ran += begin.ran;
    end.waited += begin.waited;
    cr_expect(ca_was_starved(&begin, &end, 20.0) == share->starved, "ran %g, waited %g",
              share->end.ran, share->end.waited);
}

/* A candidate that failed may have spoilt the driver: the next gets a new worker. */
Test(tune_worker, nothing_is_tried_where_something_has_failed) {
    open_client("*build*'[1,4,'*) echo '{\"reading\":" BAD "}'; bad=1;;\n"
                "*build*) if [ $bad ]; then exit 1; else echo '{\"reading\":" GOOD "}'; fi;;",
                for_ever);
    const struct ca_reading reading = build(0);
    cr_expect(reading.outcome == CA_RUNTIME_FAILED);
    cr_expect_str_eq(reading.reason, "it failed");
    expect_build(1, CA_CORRECT);
    cr_expect(eq(sz, ca_worker_restarts(client.worker), 1));
}

/* A program that was built in a worker that ended is built again before it is measured. */
Test(tune_worker, a_new_worker_builds_before_it_measures) {
    struct ca_reading reading = {.outcome = CA_CORRECT};

    open_client("*measure*) if [ $n = 0 ]; then exit 1; fi; echo '{\"reading\":" GOOD "}';;\n"
                "*build*'[1,16,'*) exit 1;;",
                for_ever);
    expect_build(0, CA_CORRECT);
    expect_build(2, CA_CRASHED);
    client.m.measure(client.m.user, 0, &client.candidates[0], 0.0, &reading);
    cr_expect(reading.outcome == CA_CORRECT && reading.times[0] == 0.5, "%s", reading.reason);
}

Test(tune_worker, a_driver_that_always_dies_ends_the_tuning) {
    size_t failed = 0;

    open_client("*build*) exit 6;;", for_ever);
    while (!ca_worker_broken(client.worker) && failed < 100)
        failed += build(failed % 3).outcome == CA_CRASHED;
    cr_expect(failed < 100);
    const char *why = ca_worker_broken(client.worker);
    cr_assert(why && strstr(why, "in a row") && strstr(why, "status 6"), "%s", why);
    expect_build(0, CA_CONSTRAINT_FAILED); /* nothing is tried any more */
}

static bool impatient;

static bool until_told(void *user)
{
    (void)user;
    return !impatient;
}

Test(tune_worker, what_is_interrupted_is_held_against_nobody) {
    double seconds[2];

    open_client("*build*'[1,4,'*) sleep 60;;", until_told);
    impatient = true;
    expect_build(0, CA_CONSTRAINT_FAILED);
    client.m.round(client.m.user, 0, client.candidates, 2, seconds);
    cr_expect(isnan(seconds[0]) && isnan(seconds[1]));
}
