/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that count against a program or a configuration for good, and those that do not. A
 * failure that may pass is tried again, by this process and the next. */
#include "context/context.h"
#include "families/candidate.h"
#include "program/build_log.h"
#include "program/verdict.h"
#include "store/quarantine.h"
#include "store/store.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/store_folder.h"
#include "tests/support/tables.h"
#include "tests/support/unoptimised.h"
#include "tune/tune.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(verdict, .init = fixture_folder, .fini = scratch_close, .timeout = 300);

static const char problem_text[] = "fwd f32 h2 q9 k20 d24 causal=br lse";

/* ---- what is said ---------------------------------------------------------------------------- */

struct said {
    char text[200];
    int lasts;
    char reason[100];
};

Test(verdict, cause_of_a_build_log) {
    static const char *const said[][2] = {
        {"", "its compiler says nothing"},
        {" \n\t\n", "its compiler says nothing"},
        {"\n  error: no space left\r\nerror: more", "error: no space left"},
        {"error: unknown target CPU 'generic'\n",
         "error: unknown target CPU 'generic' (this driver's compiler is older than the processor: "
         "a newer "
         "one, or another OpenCL driver, builds)"},
    };
    char cause[256];

    for (size_t n = 0; n < sizeof said / sizeof *said; n++) {
        ca_build_log_cause(said[n][0], cause, sizeof cause);
        cr_expect(strcmp(cause, said[n][1]) == 0, "'%s': '%s'", said[n][0], cause);
    }
}

ParameterizedTestParameters(verdict, build_logs) {
    static struct said logs[] = {
        /* PoCL, rusticl, NVIDIA's, Intel's */
        {"error: /tmp/tempfile_0.cl:1:39: use of undeclared identifier 'b'\nDevice x failed\n", 1,
         "error: /tmp/tempfile_0.cl:1:39: use of undeclared identifier 'b'"},
        {"input.cl:1:39: error: use of undeclared identifier 'b'\n", 1,
         "input.cl:1:39: error: use"},
        {"2 warnings\n<kernel>:12:3: error: expected ';'", 1, "<kernel>:12:3: error: expected ';'"},
        {"ptxas application ptx input, line 9; error   : Feature 'wgmma' requires .target sm_90a",
         1, "ptxas application ptx input, line 9; error"},
        {"ptxas fatal   : Memory allocation failure", 0, ""},
        {"1:7:1: error: no\n\nerror: backend compiler failed build.\n", 1, "1:7:1: error: no"},
        /* without memory, disk, headers or parts of the compiler; a warning; nothing */
        {"Device pthread failed to build the program\n", 0, ""},
        {"error: unable to open output file '/x/y.bc': 'No space left on device'\n", 0, ""},
        {"fatal error: cannot open file '/x/y.cl': No space left on device\n", 0, ""},
        {"error: /tmp/tempfile_0.cl:1:10: 'opencl-c.h' file not found\n", 0, ""},
        {"<built-in>:1:10: fatal error: 'opencl-c.h' file not found\n", 0, ""},
        {"LLVM ERROR: out of memory\n", 0, ""},
        {"input.cl:1:39: warning: unused variable 'error'\n", 0, ""},
        {"warning: /tmp/tempfile_0.cl:1:39: unused variable 'error'\n", 0, ""},
        {"error: in 12:30 seconds\n", 0, ""},
        {"", 0, ""},
    };
    return cr_make_param_array(struct said, logs, sizeof logs / sizeof *logs);
}

ParameterizedTest(struct said *said, verdict, build_logs) {
    struct ca_verdict verdict = {.status = CLATTN_SUCCESS};

    cr_assert(ca_verdict_of_build_log(said->text, &verdict) == said->lasts, "%s", said->text);
    cr_assert(verdict.status == (said->lasts ? CLATTN_BUILD_FAILED : CLATTN_SUCCESS));
    cr_assert(strstr(verdict.reason, said->reason) == verdict.reason, "%s", verdict.reason);
}

/* Reasons of bans: of this version, of earlier ones, and what earlier ones wrote of any failure. */
static const struct {
    const char *reason;
    int lasts;
} reasons[] = {
    {"does not build: error: /tmp/tempfile_0.cl:1:39: no", 1},
    {"does not build: error: no memory", 0},
    {"does not build", 0},
    {"it does not build", 0},
    {"computes wrong results: o(0, 1) is NaN", 1},
    {"it failed its self-check", 1},
    {"crashed twice: the worker that was building it was killed by signal 11", 1},
    {"took too long twice: building it took longer than 20 s", 1},
    {"takes too long: building it took longer than 20 s", 0},
    {"fails: clCreateBuffer for a block of 64 bytes failed with -6 (CL_OUT_OF_HOST_MEMORY)", 0},
    {"fails: the worker that was building it was killed by signal 9 (Killed)", 0},
    {"fails in a race", 0},
};

enum { NUM_REASONS = sizeof reasons / sizeof *reasons };

Test(verdict, reasons_that_last) {
    for (int what = 0; what < CA_NUM_QUARANTINES; what++) {
        char reason[64];
        ca_quarantine_reason((enum ca_quarantine)what, "x.cl:1:2: error: no", reason,
                             sizeof reason);
        cr_expect(ca_quarantine_lasts(reason), "%s", reason);
    }
    for (size_t n = 0; n < NUM_REASONS; n++)
        cr_expect(ca_quarantine_lasts(reasons[n].reason) == reasons[n].lasts, "%s",
                  reasons[n].reason);
}

/* Bans all reasons, as a document has them. */
static struct ca_table old_document(void)
{
    const clattn_device_info dev = table_device_info(1, "1");
    struct ca_table table = {NULL, 0};
    struct ca_device_table *device = ca_table_device(&table, &dev, 1);
    struct made_entry made;

    cr_assert(device != NULL);
    for (size_t n = 0; n < NUM_REASONS; n++) {
        const struct ca_entry *entry = table_entry(&made, n, 1.0);
        const struct ca_banned banned = table_banned(entry, "fwd f32 q1 k7 d8", reasons[n].reason);
        cr_assert(ca_device_table_ban(device, &banned));
    }
    return table;
}

static size_t count_lasting(void)
{
    size_t count = 0;

    for (size_t n = 0; n < NUM_REASONS; n++)
        count += reasons[n].lasts != 0;
    return count;
}

static void expect_healed(struct ca_store *store)
{
    const struct ca_view view = ca_store_lock(store);

    cr_assert(view.own && view.own->num_banned == count_lasting());
    for (size_t n = 0; n < view.own->num_banned; n++)
        cr_expect(ca_quarantine_lasts(view.own->banned[n].reason), "%s",
                  view.own->banned[n].reason);
    ca_store_unlock(store);
}

/* An earlier version's store, and one that is imported, ban only what would be banned today. */
Test(verdict, old_stores_are_healed) {
    struct ca_table old = old_document();
    char path[512], *text = table_text(&old);
    struct store_warnings warnings;
    size_t added;

    struct ca_store *store = store_open(scratch, "1", &warnings);
    store_put(store, "fwd f32 q1 k7 d8", 1, 1.0);
    snprintf(path, sizeof path, "%s", ca_store_path(store));
    ca_store_destroy(store);
    scratch_write(path, text);
    store = store_open(scratch, "1", &warnings);
    expect_healed(store);
    store_put(store, "fwd f32 q1 k7 d8", 1, 1.0);
    ca_store_destroy(store);
    char *written = scratch_read(path, NULL);
    cr_expect(!strstr(written, "fails: ") && strstr(written, "it failed its self-check"), "%s",
              written);
    free(written);
    scratch_close();
    scratch_open();
    store = store_open(scratch, "1", &warnings);
    cr_assert(ca_store_merge(store, &old, &added) == CLATTN_SUCCESS);
    cr_expect(added == count_lasting());
    expect_healed(store);
    cr_expect(warnings.count + warnings.errors == 0);
    ca_store_destroy(store);
    free(text);
    ca_table_free(&old);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static clattn_status make(struct fixture *f, char family[64])
{
    const clattn_problem problem = fixture_problem(problem_text);
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(f->context, &problem, NULL, &plan);
    if (status != CLATTN_SUCCESS)
        return status;
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    snprintf(family, 64, "%s", family_of_plan(&info));
    clattn_plan_release(plan);
    return status;
}

static int count_bans(const clattn_tuning_entry *entry, void *count)
{
    *(size_t *)count += entry->quarantine != NULL;
    return 0;
}

static size_t bans(const struct fixture *f)
{
    size_t count = 0;

    cr_assert(clattn_tuning_list(f->context, NULL, count_bans, &count) == CLATTN_SUCCESS);
    return count;
}

/* A compiler that fails for want of something else than a sound source costs one plan its speed. */
Test(verdict, a_build_that_may_succeed_is_tried_again) {
    char first[64] = "", other[64] = "", again[64] = "";
    const char *failed = "";
    struct fixture f;

    fixture_open_checked(&f, "");
    cr_assert(make(&f, first) == CLATTN_SUCCESS);
    fixture_close(&f);
    fixture_open_checked(&f, scratch);
    for (size_t n = 0; strcmp(failed, "clBuildProgram") != 0; n++) {
        faults_arm(FAULT_OPENCL, n, CL_BUILD_PROGRAM_FAILURE);
        const clattn_status status = make(&f, other);
        failed = faults_disarm();
        cr_assert(failed != NULL);
        cr_assert(status == CLATTN_SUCCESS || strcmp(failed, "clBuildProgram") != 0);
    }
    cr_expect(strcmp(first, other) != 0, "the next family is taken");
    cr_expect(bans(&f) == 0);
    cr_expect(make(&f, again) == CLATTN_SUCCESS && strcmp(again, first) == 0, "%s", again);
    fixture_close(&f);

    fixture_open_checked(&f, scratch);
    cr_expect(make(&f, again) == CLATTN_SUCCESS && strcmp(again, first) == 0, "%s", again);
    cr_expect(clattn_context_builds(f.context) == 0, "it was kept");
    fixture_close(&f);
}

/* Both the store and the cache of programs forget; without that neither does. */
Test(verdict, what_is_forgotten_is_tried_again) {
    const clattn_problem like = fixture_problem("fwd f32 h8 q500 k900 d24 causal=br lse"),
                         unlike = fixture_problem("fwd f32 h8 q500 k900 d25 causal=br lse");
    char again[64] = "";
    size_t removed, shown = 0;
    struct fixture f;

    fixture_open_checked(&f, scratch);
    faults_arm(FAULT_LIES, 0, 0);
    cr_assert(make(&f, again) == CLATTN_MISCOMPILED);
    faults_disarm();
    const size_t banned = bans(&f);
    cr_assert(banned >= 2);
    cr_assert(make(&f, again) == CLATTN_UNSUPPORTED);
    cr_expect(
        strstr(f.log.last, "set aside: it computes wrong results: it failed its self-check") &&
            strstr(f.log.last, "clattn-tune forget \"fwd f32 "),
        "%s", f.log.last);
    cr_assert(clattn_tuning_list(f.context, &like, count_bans, &shown) == CLATTN_SUCCESS);
    cr_expect(shown == banned, "its programs are the same");
    cr_assert(clattn_tuning_forget(f.context, &unlike, &removed) == CLATTN_SUCCESS);
    cr_expect(removed == 0);
    cr_assert(clattn_tuning_forget(f.context, &like, &removed) == CLATTN_SUCCESS);
    cr_expect(removed == 2 * banned, "bans, and verdicts on programs");
    cr_assert(make(&f, again) == CLATTN_SUCCESS, "%s", f.log.last);
    fixture_close(&f);
    scratch_close();
    scratch_open();
    fixture_open_checked(&f, scratch);
    faults_arm(FAULT_LIES, 0, 0);
    cr_assert(make(&f, again) == CLATTN_MISCOMPILED);
    faults_disarm();
    fixture_close(&f);
    fixture_open_checked(&f, scratch); /* as another process */
    cr_expect(make(&f, again) == CLATTN_UNSUPPORTED);
    cr_assert(clattn_tuning_forget(f.context, NULL, &removed) == CLATTN_SUCCESS);
    cr_expect(removed == 2 * banned, "%zu, not %zu", removed, 2 * banned);
    cr_assert(make(&f, again) == CLATTN_SUCCESS, "%s", f.log.last);
    fixture_close(&f);
}

/* ---- tuning ---------------------------------------------------------------------------------- */

/* Whatever fails once while a plan is tuned, nothing is banned and the plan is had. */
Test(verdict, a_call_that_fails_once_costs_nothing_for_good) {
    const clattn_problem problem = fixture_problem(problem_text);
    const clattn_plan_options options = {
        .struct_size = sizeof options, .flags = CLATTN_PLAN_MEASURE, .measure_seconds = 0.1};
    static const size_t calls[] = {12, 24, 48, 96};

    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        struct fixture f;
        clattn_plan *plan;
        fixture_open_checked(&f, "");
        faults_arm(FAULT_OPENCL, calls[n], CL_MEM_OBJECT_ALLOCATION_FAILURE);
        const clattn_status status = clattn_plan_create(f.context, &problem, &options, &plan);
        const char *failed = faults_disarm();
        cr_expect(bans(&f) == 0, "after %s", failed);
        if (status != CLATTN_SUCCESS) /* it came after the tuning */
            cr_assert(clattn_plan_create(f.context, &problem, NULL, &plan) == CLATTN_SUCCESS, "%s",
                      f.log.last);
        clattn_plan_release(plan);
        fixture_close(&f);
    }
}

/* A measurer whose candidates have the outcomes told, in the order in which they come; the last one
 * is that of all further ones. A failure that may pass is one only at first, if it is to pass. */
struct made_measurer {
    enum ca_outcome outcomes[8];
    size_t num_outcomes;
    int passes;
    struct ca_candidate seen[64];
    size_t tries[64], num_seen;
};

static size_t see(struct made_measurer *m, const struct ca_candidate *candidate)
{
    size_t n = 0;

    while (n < m->num_seen && !ca_candidates_equal(&m->seen[n], candidate))
        n++;
    cr_assert(n < 64);
    if (n == m->num_seen)
        m->seen[m->num_seen++] = *candidate;
    return n;
}

static void made_build(void *user, const struct ca_candidate *candidate, struct ca_reading *reading)
{
    struct made_measurer *m = user;
    const size_t n = see(m, candidate);
    const enum ca_outcome outcome = m->outcomes[n < m->num_outcomes ? n : m->num_outcomes - 1];

    *reading = (struct ca_reading){.outcome = outcome};
    if (outcome == CA_RUNTIME_FAILED && m->passes && m->tries[n]++ > 0)
        reading->outcome = CA_CORRECT;
    if (reading->outcome != CA_CORRECT)
        snprintf(reading->reason, sizeof reading->reason, "x.cl:1:2: error: no");
}

static void made_measure(void *user, size_t problem, const struct ca_candidate *candidate,
                         double best, struct ca_reading *reading)
{
    const double seconds = 1e-3 * (double)(1 + see(user, candidate));

    (void)problem;
    (void)best;
    reading->num_times = 3;
    for (size_t n = 0; n < 3; n++)
        reading->times[n] = seconds;
}

static void made_round(void *user, size_t problem, const struct ca_candidate *candidates,
                       size_t count, double *seconds)
{
    (void)problem;
    for (size_t n = 0; n < count; n++)
        seconds[n] = 1e-3 * (double)(1 + see(user, &candidates[n]));
}

static clattn_status made_open(void *user, const struct ca_problem *problems, size_t count,
                               struct ca_measurer *measurer)
{
    (void)problems;
    (void)count;
    *measurer = (struct ca_measurer){
        .user = user, .build = made_build, .measure = made_measure, .round = made_round};
    return CLATTN_SUCCESS;
}

/* A candidate whose failure may pass is tried twice and not banned. One that crashed is banned
 * if something else has worked since. */
Test(verdict, of_a_tuning) {
    static const struct {
        enum ca_outcome outcomes[8];
        size_t num_outcomes;
        int passes;
        clattn_status status;
        size_t banned;
    } cases[] = {
        {{CA_RUNTIME_FAILED}, 1, 1, CLATTN_SUCCESS, 0},
        {{CA_RUNTIME_FAILED}, 1, 0, CLATTN_OPENCL_ERROR, 0},
        {{CA_CRASHED}, 1, 0, CLATTN_OPENCL_ERROR, 0},
        {{CA_CORRECT, CA_CORRECT, CA_CRASHED, CA_TIMED_OUT, CA_CORRECT}, 5, 0, CLATTN_SUCCESS, 2},
        {{CA_CORRECT, CA_WRONG, CA_COMPILE_FAILED, CA_RUNTIME_FAILED}, 4, 0, CLATTN_SUCCESS, 2},
    };
    const clattn_problem problem = fixture_problem(problem_text);
    const clattn_tuning_options options = {
        .struct_size = sizeof options, .evaluations = 6, .strategy = "random"};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        if (!run_takes(n, 1)) /* the others in the next run */
            continue;
        struct made_measurer made = {.num_outcomes = cases[n].num_outcomes,
                                     .passes = cases[n].passes};
        const struct ca_tune_hooks hooks = {.user = &made, .open = made_open};
        struct ca_tune_result result = {.known = 0};
        struct fixture f;
        fixture_open(&f);
        memcpy(made.outcomes, cases[n].outcomes, sizeof made.outcomes);
        cr_assert((int)ca_tune(f.context, &problem, 1, &options, &hooks, &result) ==
                      (int)cases[n].status,
                  "case %zu: %s", n, f.log.last);
        cr_expect(bans(&f) == cases[n].banned, "case %zu", n);
        cr_expect(clattn_plan_supports(f.context, &problem, NULL) == CLATTN_SUCCESS);
        fixture_close(&f);
    }
}
