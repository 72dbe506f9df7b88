/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a tuning: what it keeps, what it passes over, who may have it. */
#define _POSIX_C_SOURCE 200809L /* fork, truncate */
#include "families/candidate.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "tests/tuner/tune_program.h"
#include "tuner/journal.h"
#include "tuner/journal_measurer.h"
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[SCRATCH_BYTES + 32]; /* of the journal */

static void open_folder(void)
{
    tune_open();
    snprintf(path, sizeof path, "%s/deep/down/journal", scratch);
}

TestSuite(tune_journal, .init = open_folder, .fini = scratch_close);

static const char class_a[] = "fwd f32 b1 h2 q64 k64 d32",
                  class_b[] = "fwd f32 b1 h2 q128 k128 d32";

/* Candidate n of a family: its nth pair of values of the first two tunables after UNIT. */
static struct ca_candidate candidate(size_t n)
{
    struct ca_candidate made = {.family = &ca_fused_cpu_vector};
    const struct ca_tunable *tunables = made.family->tunables;

    ca_tunables_default(tunables, made.family->num_tunables, made.values);
    made.values[1] = tunables[1].candidates[n % tunables[1].num_candidates];
    made.values[2] = tunables[2].candidates[n / tunables[1].num_candidates];
    return made;
}

static void add(struct ca_journal *journal, const char *problem_class, size_t n)
{
    struct ca_journal_entry entry = {
        .candidate = candidate(n),
        .reading = {.outcome = CA_CORRECT, .times = {1e-3 * (double)(n + 1)}, .num_times = 1},
        .built = true,
        .seconds = 0.5};

    snprintf(entry.problem_class, sizeof entry.problem_class, "%s", problem_class);
    ca_journal_add(journal, &entry);
}

static struct ca_journal *open_at(const char *where)
{
    struct ca_journal *journal;
    struct message why = {""};

    cr_assert(ca_journal_open(where, &journal, &why) == CA_JOURNAL_OPEN, "%s", why.text);
    return journal;
}

static bool has(const struct ca_journal *journal, const char *problem_class, size_t n)
{
    const struct ca_candidate wanted = candidate(n);
    const struct ca_journal_entry *entry = ca_journal_find(journal, problem_class, &wanted);

    return entry && entry->reading.times[0] == 1e-3 * (double)(n + 1) && entry->built &&
           entry->seconds == 0.5 && strlen(entry->when) == strlen("2026-11-21T09:30:00Z");
}

/* Writes entries 0 and 1 of class a and 2 of class b in another process. */
static void write_and_die(void)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        struct ca_journal *journal = open_at(path);
        add(journal, class_a, 0);
        add(journal, class_a, 1);
        add(journal, class_b, 2);
        _exit(0); /* as a kill ends it: nothing is tidied up */
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
}

Test(tune_journal, keeps_what_a_killed_tuning_measured) {
    write_and_die();
    struct ca_journal *journal = open_at(path);
    cr_expect(eq(sz, ca_journal_count(journal), 3));
    cr_expect(has(journal, class_a, 0) && has(journal, class_a, 1) && has(journal, class_b, 2));
    cr_expect(has(journal, class_b, 0) == false);
    add(journal, class_a, 1); /* is there already */
    cr_expect(eq(sz, ca_journal_count(journal), 3));
    ca_journal_finish(journal, class_a);
    ca_journal_close(journal);

    journal = open_at(path); /* the other class is still there */
    cr_expect(eq(sz, ca_journal_count(journal), 1));
    cr_expect(has(journal, class_b, 2));
    ca_journal_finish(journal, class_b);
    ca_journal_close(journal);
    cr_expect(access(path, F_OK) != 0, "an empty journal is left behind");
}

/* A line that is finished counts at once: a kill after it loses nothing and resumes nothing. */
Test(tune_journal, knows_what_was_finished_before_a_kill) {
    int status;

    write_and_die();
    const pid_t child = fork();
    if (child == 0) {
        ca_journal_finish(open_at(path), class_a);
        _exit(0);
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    struct ca_journal *journal = open_at(path);
    cr_expect(eq(sz, ca_journal_count(journal), 1));
    cr_expect(has(journal, class_b, 2));
    ca_journal_close(journal);
}

/* Torn anywhere, the last line is lost and no other, and what is added then is not. */
Test(tune_journal, survives_a_torn_line) {
    struct stat all;

    for (off_t cut = 1; cut < 400; cut += 57) {
        write_and_die();
        cr_assert(stat(path, &all) == 0 && truncate(path, all.st_size - cut) == 0);
        struct ca_journal *journal = open_at(path);
        cr_expect(has(journal, class_a, 0) && has(journal, class_a, 1));
        cr_expect(has(journal, class_b, 2) == (cut == 1), "%ld bytes cut", (long)cut);
        add(journal, class_b, 3);
        ca_journal_close(journal);
        journal = open_at(path);
        cr_expect(has(journal, class_a, 1) && has(journal, class_b, 3));
        ca_journal_finish(journal, class_a);
        ca_journal_finish(journal, class_b);
        ca_journal_close(journal);
    }
}

/* The same without a tidy end of the second process: the file holds the torn line in its middle. */
Test(tune_journal, goes_on_behind_a_torn_line) {
    struct stat all;

    write_and_die();
    cr_assert(stat(path, &all) == 0 && truncate(path, all.st_size - 20) == 0);
    write_and_die();
    struct ca_journal *journal = open_at(path);
    cr_expect(eq(sz, ca_journal_count(journal), 3));
    cr_expect(has(journal, class_b, 2));
    ca_journal_close(journal);
}

struct change {
    char from[40], to[40]; /* in the file, of equal length */
};

ParameterizedTestParameters(tune_journal, passes_over) {
    static struct change changes[] = {
        {"\"source\":\"", "\"sOurce\":\""}, /* missing */
        {"\"declaration\":\"", "\"declaratiOn\":\""},
        {"\"family\":\"fused_cpu UNIT=vector\"", "\"family\":\"fused_lines\""},
        {"\"values\":[", "\"values\":{"},
        {"\"outcome\":\"correct\"", "\"outcome\":\"perfect\""},
        {"\"seconds\":0.5", "\"seconds\":-.5"},
        {"\"built\":", "\"builT\":"},
        {"{", "\""},
    };
    return cr_make_param_array(struct change, changes, sizeof changes / sizeof *changes);
}

ParameterizedTest(struct change *change, tune_journal, passes_over) {
    write_and_die();
    char *text = scratch_read(path, NULL);
    char *place = strstr(text, change->from); /* in the first line */
    cr_assert(place != NULL, "%s is not in %s", change->from, text);
    memcpy(place, change->to, strlen(change->to));
    scratch_write(path, text);
    free(text);
    struct ca_journal *journal = open_at(path);
    cr_expect(eq(sz, ca_journal_count(journal), 2));
    cr_expect(has(journal, class_a, 1) && !has(journal, class_a, 0));
    ca_journal_close(journal);
}

/* A kernel whose hash is another has changed since. */
Test(tune_journal, passes_over_changed_kernels) {
    write_and_die();
    char *text = scratch_read(path, NULL);
    for (char *at = text; (at = strstr(at, "\"source\":\"")) != NULL;) {
        at += strlen("\"source\":\"");
        *at = *at == '0' ? '1' : '0';
    }
    scratch_write(path, text);
    free(text);
    struct ca_journal *journal = open_at(path);
    cr_expect(eq(sz, ca_journal_count(journal), 0));
    ca_journal_close(journal);
}

Test(tune_journal, has_one_owner) {
    struct message why;
    int status;

    struct ca_journal *journal = open_at(path);
    const pid_t child = fork();
    if (child == 0) {
        struct ca_journal *other;
        _exit(ca_journal_open(path, &other, &why) == CA_JOURNAL_BUSY && !other ? 0 : 1);
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    ca_journal_close(journal);
    ca_journal_close(open_at(path));
}

Test(tune_journal, lives_in_memory_if_it_must) {
    const char *const paths[] = {"", "/dev/null/journal"};
    struct message why;
    struct ca_journal *journal;

    for (size_t n = 0; n < 2; n++) {
        cr_assert(eq(int, (int)ca_journal_open(paths[n], &journal, &why),
                     (int)(n == 0 ? CA_JOURNAL_OPEN : CA_JOURNAL_FORGETFUL)));
        add(journal, class_a, 0);
        cr_expect(has(journal, class_a, 0));
        ca_journal_finish(journal, class_a);
        ca_journal_close(journal);
    }
    cr_expect(strstr(why.text, "/dev/null/journal") != NULL, "%s", why.text);
}

/* ---- measuring with it ----------------------------------------------------------------------- */

struct calls {
    size_t builds, measurements, tries;
    enum ca_outcome build, measurement;
};

static void count_build(void *user, const struct ca_candidate *c, struct ca_reading *reading)
{
    struct calls *calls = user;

    (void)c;
    calls->builds++;
    *reading = (struct ca_reading){.outcome = calls->build, .binary = 17, .compile_seconds = 0.25};
}

static void count_measure(void *user, size_t problem, const struct ca_candidate *c, double best,
                          struct ca_reading *reading)
{
    struct calls *calls = user;

    (void)problem, (void)c, (void)best;
    calls->measurements++;
    *reading = (struct ca_reading){.outcome = calls->measurement, .times = {2e-3}, .num_times = 1};
}

static void read_nothing(void *user, size_t problem, const struct ca_candidate *c, size_t count,
                         double *seconds)
{
    (void)user, (void)problem, (void)c;
    for (size_t n = 0; n < count; n++)
        seconds[n] = n == 0 ? NAN : INFINITY;
}

static void count_try(void *user, const struct ca_candidate *c)
{
    struct calls *calls = user;

    (void)c;
    calls->tries++;
}

/* Builds candidate n and measures it on both problems, as a session does. */
static void try_candidate(struct ca_journal *journal, struct calls *calls, size_t n,
                          struct ca_reading readings[2])
{
    const struct ca_measurer within = {
        .user = calls, .build = count_build, .measure = count_measure, .round = read_nothing};
    const struct ca_candidate tried = candidate(n);
    clattn_problem a, b;

    clattn_problem_parse(class_a, &a, NULL, 0);
    clattn_problem_parse(class_b, &b, NULL, 0);
    const struct ca_problem problems[2] = {ca_problem_own(&a), ca_problem_own(&b)};
    const struct ca_journal_hooks hooks = {.user = calls, .building = count_try};
    struct ca_measurer m;
    cr_assert(ca_journal_measurer(&within, journal, problems, 2, &hooks, &m));
    m.build(m.user, &tried, &readings[0]);
    readings[1] = readings[0];
    for (size_t p = 0; p < 2 && readings[p].outcome == CA_CORRECT; p++)
        m.measure(m.user, p, &tried, 0.0, &readings[p]);
    m.close(m.user);
}

/* Candidates in the journal are neither built nor measured again, whatever became of them. One
 * whose failure may pass is tried again, and one that an interruption kept from being tried is
 * not known. */
Test(tune_journal, nothing_is_measured_twice) {
    static const struct {
        enum ca_outcome build, measurement;
        size_t builds, measurements, entries; /* after the second time */
    } cases[] = {
        {CA_CORRECT, CA_CORRECT, 1, 2, 2},
        {CA_CORRECT, CA_TIMED_OUT, 1, 2, 2},
        {CA_WRONG, CA_CORRECT, 1, 0, 2},
        {CA_COMPILE_FAILED, CA_CORRECT, 1, 0, 2},
        {CA_RUNTIME_FAILED, CA_CORRECT, 2, 0, 1}, /* which is there for the report, before */
        {CA_CONSTRAINT_FAILED, CA_CORRECT, 2, 0, 0},
        {CA_CORRECT, CA_CONSTRAINT_FAILED, 2, 4, 0},
    };
    struct ca_reading first[2], again[2];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct calls calls = {.build = cases[n].build, .measurement = cases[n].measurement};
        struct ca_journal_entry failed = {.candidate = candidate(n),
                                          .reading = {.outcome = CA_RUNTIME_FAILED}};
        struct ca_journal *journal = open_at("");
        snprintf(failed.problem_class, sizeof failed.problem_class, "%s", class_a);
        if (calls.build == CA_RUNTIME_FAILED)
            ca_journal_add(journal, &failed);
        try_candidate(journal, &calls, n, first);
        cr_expect(calls.builds == 1 && calls.tries == 1);
        try_candidate(journal, &calls, n, again);
        cr_expect(eq(sz, calls.builds, cases[n].builds), "case %zu", n);
        cr_expect(eq(sz, calls.tries, cases[n].builds), "case %zu", n);
        cr_expect(eq(sz, calls.measurements, cases[n].measurements), "case %zu", n);
        cr_expect(eq(sz, ca_journal_count(journal), cases[n].entries), "case %zu", n);
        for (size_t p = 0; p < 2; p++) {
            cr_expect(again[p].outcome == first[p].outcome && again[p].binary == first[p].binary);
            cr_expect(again[p].num_times == first[p].num_times);
        }
        try_candidate(journal, &calls, n + sizeof cases / sizeof *cases, again);
        cr_expect(eq(sz, calls.builds, cases[n].builds + 1), "case %zu", n);
        ca_journal_close(journal);
    }
}

/* Another problem's reading has the compiler's time of the build that it shares. */
Test(tune_journal, a_build_that_is_known_has_its_time) {
    struct calls calls = {.build = CA_CORRECT, .measurement = CA_CORRECT};
    struct ca_journal_entry known = {
        .candidate = candidate(0),
        .reading = {.outcome = CA_CORRECT, .num_times = 1, .compile_seconds = 0.5},
        .built = true};
    struct ca_journal *journal = open_at("");
    struct ca_reading readings[2];
    clattn_problem problem;

    clattn_problem_parse(class_a, &problem, NULL, 0);
    clattn_problem_class(&problem, known.problem_class, sizeof known.problem_class, NULL);
    ca_journal_add(journal, &known);
    try_candidate(journal, &calls, 0, readings);
    cr_expect(calls.builds == 0 && calls.measurements == 1);
    cr_expect(readings[1].compile_seconds == 0.5, "%g s", readings[1].compile_seconds);
    ca_journal_close(journal);
}

/* In a round NaN stands for what was not tried, and is no failure. */
Test(tune_journal, a_round_that_was_interrupted_is_no_failure) {
    const struct ca_measurer within = {
        .build = count_build, .measure = count_measure, .round = read_nothing};
    const struct ca_candidate both[2] = {candidate(0), candidate(1)};
    struct ca_journal *journal = open_at("");
    clattn_problem problem;
    double seconds[2];

    add(journal, class_a, 0);
    add(journal, class_a, 1);
    clattn_problem_parse(class_a, &problem, NULL, 0);
    const struct ca_problem made = ca_problem_own(&problem);
    const struct ca_journal_hooks hooks = {.user = NULL};
    struct ca_measurer m;
    cr_assert(ca_journal_measurer(&within, journal, &made, 1, &hooks, &m));
    m.round(m.user, 0, both, 2, seconds);
    cr_expect(seconds[0] == 1e-3 && isinf(seconds[1]));
    m.close(m.user);
    ca_journal_close(journal);
}
