/* SPDX-License-Identifier: Apache-2.0 */
/* A program that ends the process while it is made: once may be bad luck, twice is a verdict. The
 * processes that die are forked before this one has used OpenCL. */
#define _XOPEN_SOURCE 700 /* setrlimit, strdup */
#include "context/context.h"
#include "context/first_run.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/apart.h"
#include "tests/support/programs/store_folder.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/resource.h>
#endif
#include <time.h>

TestSuite(first_run, .init = fixture_folder, .fini = scratch_close, .timeout = 300);

static const char problem_text[] = "fwd f32 h2 q9 k20 d8";

enum { NAME = 64 };

/* Makes a plan by default, or of a family; which it is, "" without a plan. */
static clattn_status make_of(clattn_context *context, const char *only, char family[NAME])
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = only};
    const clattn_problem problem = fixture_problem(problem_text);
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;

    family[0] = '\0';
    const clattn_status status = clattn_plan_create(context, &problem, &options, &plan);
    if (clattn_plan_describe(plan, &info) == CLATTN_SUCCESS)
        snprintf(family, NAME, "%s", family_of_plan(&info));
    clattn_plan_release(plan);
    return status;
}

static clattn_status make(clattn_context *context, char family[NAME])
{
    return make_of(context, NULL, family);
}

/* Returns how many attempts are counted in the cache directory. */
static size_t begun(void)
{
    const struct scratch_files found = scratch_find("programs", "");
    size_t count = 0;

    for (size_t n = 0; n < found.count; n++)
        count += strstr(found.paths[n], ".begun") != NULL;
    return count;
}

static cl_int die(void *user)
{
    (void)user;
    apart_die();
    return CL_SUCCESS;
}

static cl_int end_excused(void *context)
{
    clattn_context_leave(context);
    return die(NULL);
}

static void die_of_a_warning(clattn_log_level level, const char *message, void *user)
{
    (void)message;
    if (level == CLATTN_LOG_WARNING)
        die(user);
}

enum place { IN_BUILD, IN_CHECK, EXCUSED /* in a build, after clattn_context_leave() */ };

static int make_apart(const struct apart_site *site)
{
    const enum place place = (enum place)site->number;
    const clattn_context_options options = {
        .struct_size = sizeof options,
        .log = place == IN_CHECK ? die_of_a_warning : NULL, /* "it is miscompiled" */
        .cache_directory = scratch};
    clattn_context *context;
    char family[NAME];

    if (clattn_context_create_default(NULL, &options, &context) != CLATTN_SUCCESS)
        return 1;
    if (place != IN_CHECK)
        faults_on_build(place == EXCUSED ? end_excused : die, context);
    else
        faults_arm(FAULT_LIES, 0, 0);
    make(context, family);
    return 2;
}
APART(make_apart)

/* In a process that dies while it makes a program. */
static void make_and_die(enum place place)
{
    const struct apart dies = apart_start(make_apart, place);
    const int status = apart_end(&dies);

    cr_assert(status == -1, "status %d", status);
    cr_assert(begun() == 1);
}

/* A plan whose first run was only begun is made without a warning, and leaves no mark. */
static void expect_tried_again(void)
{
    char family[NAME];
    struct fixture f;

    fixture_open_checked(&f, scratch);
    cr_expect(make(f.context, family) == CLATTN_SUCCESS && f.log.warnings == 0, "%s", f.log.last);
    cr_expect(begun() == 0);
    fixture_close(&f);
}

Test(first_run, what_died_once_is_tried_again) {
    make_and_die(IN_BUILD);
    expect_tried_again();
}

static int count_bans(const clattn_tuning_entry *entry, void *count)
{
    *(size_t *)count += entry->quarantine != NULL;
    return 0;
}

Test(first_run, what_died_twice_is_set_aside_until_it_is_forgotten) {
    char first[NAME], other[NAME], again[NAME];
    const clattn_problem problem = fixture_problem(problem_text);
    struct store_warnings warnings = {0};
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = store_warn,
                                            .log_user_data = &warnings,
                                            .cache_directory = scratch};
    clattn_context *context;
    size_t removed, banned = 0;

    make_and_die(IN_BUILD);
    make_and_die(IN_CHECK);
    cr_assert(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS);
    cr_expect(make(context, other) == CLATTN_SUCCESS, "%s", warnings.last);
    cr_expect(warnings.count == 1 && warnings.errors == 0);
    cr_expect(strstr(warnings.last, "it ended the process twice while it was compiled or checked"));
    cr_expect(strstr(warnings.last, "clattn-tune forget \"fwd f32 "), "%s", warnings.last);
    cr_expect(begun() == 1);
    cr_assert(clattn_tuning_list(context, NULL, count_bans, &banned) == CLATTN_SUCCESS);
    cr_expect(banned == 0, "what passes is not held against it in the store");
    clattn_context_release(context);

    cr_assert(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS);
    cr_expect(make(context, again) == CLATTN_SUCCESS && strcmp(again, other) == 0, "it lasts");
    cr_expect(make(context, again) == CLATTN_SUCCESS && strcmp(again, other) == 0);
    cr_expect(warnings.count == 2, "each context says so once");
    cr_assert(clattn_tuning_forget(context, &problem, &removed) == CLATTN_SUCCESS && removed == 1);
    cr_expect(make(context, first) == CLATTN_SUCCESS && strcmp(first, other) != 0, "%s", first);
    cr_expect(warnings.count == 2 && begun() == 0);
    clattn_context_release(context);
}

/* Checks whether the family in which processes died is passed over. A warning and the plan's
 * reason say so. */
static void expect_set_aside(int aside)
{
    const clattn_problem problem = fixture_problem(problem_text);
    clattn_plan_info info = {.struct_size = sizeof info};
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, scratch);
    cr_assert(clattn_plan_create(f.context, &problem, NULL, &plan) == CLATTN_SUCCESS, "%s",
              f.log.last);
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    cr_expect((int)f.log.warnings == aside && (int)begun() == aside);
    cr_expect((strstr(info.reason, "was passed over: it ended the process twice while it was "
                                   "compiled or checked, and is tried again after 20") != NULL) ==
                  aside,
              "%s", info.reason);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* Under another limit, from which nothing tells a crash, deaths do not count. */
Test(first_run, deaths_count_under_the_same_limits) {
#if defined(_WIN32)
    cr_skip_test("Windows has no limits of processes that a program sets for itself");
#else
    struct rlimit files;

    make_and_die(IN_BUILD);
    make_and_die(IN_BUILD);
    cr_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur--;
    cr_assert(setrlimit(RLIMIT_NOFILE, &files) == 0);
    expect_set_aside(0);
#endif
}

/* A lack of memory passes, too. */
Test(first_run, deaths_count_for_a_day) {
    make_and_die(IN_BUILD);
    make_and_die(IN_BUILD);
    expect_set_aside(1);
    const struct scratch_files found = scratch_find("programs", ".begun");
    const time_t a_day_ago = time(NULL) - CA_FIRST_RUN_SECONDS;
    cr_assert(found.count == 1);
    cr_assert(scratch_set_time(found.paths[0], a_day_ago + 60));
    expect_set_aside(1);
    cr_assert(scratch_set_time(found.paths[0], a_day_ago - 60));
    expect_set_aside(0);
}

/* However often somebody ends the process, nothing is set aside. */
Test(first_run, an_interruption_is_no_death) {
    make_and_die(IN_BUILD);
    for (int n = 0; n < CA_FIRST_RUN_DEATHS; n++)
        make_and_die(EXCUSED);
    expect_tried_again();
}

/* A death before an interruption still counts. This is a test of its own, since some drivers do
 * not work in the child of a process that has used them. */
Test(first_run, an_interruption_excuses_no_death_before_it) {
    char family[NAME];
    struct fixture f;

    make_and_die(IN_BUILD);
    make_and_die(EXCUSED);
    make_and_die(IN_BUILD);
    fixture_open_checked(&f, scratch);
    cr_expect(make(f.context, family) == CLATTN_SUCCESS && f.log.warnings == 1, "%s", f.log.last);
    fixture_close(&f);
}

/* Says that a build has begun, and waits for a word. */
static cl_int linger(void *user)
{
    const struct apart_site *site = user;
    char byte;

    if (!ca_pipe_write(site->says, "", 1) || ca_pipe_read(site->hears, &byte, 1, -1) != 1)
        apart_die();
    return CL_SUCCESS;
}

static int make_and_linger(const struct apart_site *site)
{
    struct apart_site own = *site;
    char family[NAME];
    struct fixture f;

    fixture_open_checked(&f, scratch);
    faults_on_build(linger, &own);
    return make(f.context, family) == CLATTN_SUCCESS && f.log.warnings == 0 ? 0 : 1;
}
APART(make_and_linger)

/* After one death, a second process is in the middle of it when a third one comes. */
Test(first_run, a_process_that_is_at_it_is_no_death) {
    char family[NAME];
    struct fixture f;

    make_and_die(IN_BUILD);
    const struct apart other = apart_start(make_and_linger, 0);
    cr_assert(apart_said(&other));
    fixture_open_checked(&f, scratch);
    cr_expect(make(f.context, family) == CLATTN_SUCCESS && f.log.warnings == 0, "%s", f.log.last);
    cr_expect(begun() == 1, "the other's");
    fixture_close(&f);
    cr_assert(ca_pipe_write(other.hears, "", 1));
    const int status = apart_end(&other);
    cr_expect(status == 0, "status %d", status);
    cr_expect(begun() == 0);
}

static int begin_and_end(const struct apart_site *site)
{
    const char *path = scratch_path("programs/a.begun");
    struct ca_first_runs runs = {0};
    struct ca_first_run run;
    int deaths = 0;
    time_t until;

    for (size_t again = 0; again < site->number; again++) {
        deaths += ca_first_run_begin(&runs, &run, strdup(path), "", &until);
        ca_first_run_end(&run);
    }
    return deaths > 0;
}
APART(begin_and_end)

/* Runs that begin while others end: four processes, thousands of times. */
Test(first_run, those_that_end_are_no_deaths) {
    enum { PROCESSES = 4, RUNS = 5000 };
    struct apart others[PROCESSES];

    for (int n = 0; n < PROCESSES; n++)
        others[n] = apart_start(begin_and_end, RUNS);
    for (int n = 0; n < PROCESSES; n++) {
        const int status = apart_end(&others[n]);
        cr_expect(status == 0, "status %d", status);
    }
    cr_expect(begun() == 0);
}

struct builds {
    size_t count, counted;
    cl_int answer;
};

static cl_int look(void *user)
{
    struct builds *builds = user;

    builds->count++;
    builds->counted += begun();
    return builds->answer;
}

/* However it ends: the build fails, the results are wrong, all is right. */
Test(first_run, what_ends_leaves_nothing) {
    char family[NAME];
    struct builds builds = {0};
    struct fixture f;

    for (int way = 0; way < 3; way++) {
        fixture_open_checked(&f, scratch);
        builds.answer = way == 0 ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
        builds.count = builds.counted = 0;
        faults_on_build(look, &builds);
        if (way == 1)
            faults_arm(FAULT_LIES, 0, 0);
        const clattn_status status = make_of(f.context, "unfused_lanes", family);
        cr_expect((status == CLATTN_SUCCESS) == (way == 2), "way %d: %d", way, (int)status);
        faults_disarm();
        faults_on_build(NULL, NULL);
        cr_expect(builds.count == 1 && builds.counted == 1, "way %d", way);
        cr_expect(begun() == 0, "way %d", way);
        fixture_close(&f);
        scratch_close();
        scratch_open();
    }
}
