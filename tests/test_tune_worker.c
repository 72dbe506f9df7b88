/* A child process that answers, hangs, dies or talks nonsense; shells stand in for the worker. */
#define _POSIX_C_SOURCE 200809L /* kill */
#include "worker_json.h"
#include "worker_process.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
    struct ca_sentence why;

    signal(SIGPIPE, SIG_IGN);
    cr_assert(ca_process_start(process, argv, &why), "%s", why.text);
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
    struct ca_sentence how = {""};
    json_t *answer;

    start(&process, b->script);
    const pid_t pid = process.pid;
    const enum ca_asked asked = ca_process_ask(&process, json_pack("{s:s}", "do", "it"), 1.0,
                                               for_ever, NULL, &answer, &how);
    cr_assert(eq(int, (int)asked, (int)b->asked), "%s: %s", b->script, how.text);
    cr_assert(strstr(how.text, b->how) != NULL, "%s: %s", b->script, how.text);
    cr_assert(asked == CA_ANSWERED ? answer != NULL : !answer);
    json_decref(answer);
    ca_process_end(&process);
    cr_assert(kill(pid, 0) == -1 && errno == ESRCH, "%s: it lives on", b->script);
}

/* What it has started itself ends, too. */
Test(tune_worker, ends_with_its_children) {
    struct ca_process process;
    struct ca_sentence how;
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
    struct ca_sentence how;
    json_t *answer;

    start(&process, "sleep 60");
    cr_assert(ca_process_ask(&process, json_object(), 30.0, never, NULL, &answer, &how) ==
              CA_STOPPED);
    cr_assert(answer == NULL && process.pid == 0);
}

Test(tune_worker, cannot_be_started) {
    const char *const argv[] = {"/nonexistent/program", NULL};
    struct ca_process process;
    struct ca_sentence why = {""};

    cr_assert(ca_process_start(&process, argv, &why) == false);
    cr_assert(strstr(why.text, "/nonexistent/program") != NULL, "%s", why.text);
    cr_assert(process.pid == 0);
}

/* ---- readings and candidates ------------------------------------------------------------------ */

Test(tune_worker, readings_come_through) {
    const struct ca_reading sent = {.outcome = CA_TIMED_OUT,
                                    .times = {1e-3, 1.0 / 3.0},
                                    .num_times = 2,
                                    .error = INFINITY,
                                    .binary = 0xfedcba9876543210u,
                                    .compile_seconds = 0.1,
                                    .check_seconds = 0.2,
                                    .measure_seconds = 0.3,
                                    .reason = "a \"reason\" of bytes \xff\xfe"};
    struct ca_reading got;

    json_t *object = ca_reading_json(&sent);
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_t *back = json_loads(line, 0, NULL);
    cr_assert(ca_reading_from_json(back, &got), "%s", line);
    cr_assert(got.outcome == sent.outcome && got.num_times == 2 && got.binary == sent.binary);
    cr_assert(got.times[1] == sent.times[1] && isinf(got.error) && got.check_seconds == 0.2);
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
    ", \"compile\": 0, \"check\": 0, \"measure\": 0, \"reason\": \"\"}"

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
    const struct ca_family *family = &ca_fused_lanes;
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
