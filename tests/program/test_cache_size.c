/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on disk and in memory have a limit; the least recently used ones go. */
#define _XOPEN_SOURCE 700 /* alarm, fork */
#include "base/cache_directory.h"
#include "context/context.h"
#include "os/circumstances.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/process.h"
#include "program/program.h"
#include "program/program_cache.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/scratch.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif
#include <time.h>

TestSuite(cache_size, .init = fixture_folder, .fini = scratch_close, .timeout = 300);

/* ---- on disk ---------------------------------------------------------------------------------- */

Test(cache_size, limit) {
    static const struct {
        const char *text;
        unsigned long long bytes;
        int good;
    } cases[] = {{NULL, 1ull << 30, 1},
                 {"", 1ull << 30, 1},
                 {"0", 0, 1},
                 {"12345", 12345, 1},
                 {"3k", 3 << 10, 1},
                 {"500M", 500ull << 20, 1},
                 {"2G", 2ull << 30, 1},
                 {"2GB", 1ull << 30, 0},
                 {"-1", 1ull << 30, 0},
                 {"much", 1ull << 30, 0},
                 {"1.5G", 1ull << 30, 0},
                 {"99999999999999999999", 1ull << 30, 0},
                 {"99999999999999999G", 1ull << 30, 0}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        unsigned long long bytes;
        ca_variable_set("CLATTN_CACHE_MAX_SIZE", cases[n].text);
        cr_expect(ca_cache_limit(&bytes) == cases[n].good && bytes == cases[n].bytes, "'%s': %llu",
                  cases[n].text ? cases[n].text : "unset", bytes);
    }
}

static void write_aged(const char *name, size_t bytes, time_t age)
{
    char *text = calloc(1, bytes);

    cr_assert(text != NULL);
    scratch_write_bytes(scratch_path("programs/%s", name), text, bytes);
    cr_assert(scratch_set_time(scratch_path("programs/%s", name), time(NULL) - age));
    free(text);
}

static int is_there(const char *name)
{
    return scratch_has(scratch_path("programs/%s", name));
}

/* Programs that were used longest ago go first, of whatever version and driver. Of other files, those go that killed
 * processes left half written. */
Test(cache_size, what_was_used_longest_ago_goes) {
    struct fixture f;

    fixture_open_checked(&f, scratch);
    cr_assert(ca_folder_make(scratch_path("programs")));
    write_aged("old.clbin", 1000, 300);
    write_aged("new.clbin", 1000, 100);
    write_aged("older.clbin", 1000, 400);
    write_aged("a.clbin.tmp-abc123", 50, 7200);
    write_aged("b.clbin.tmp-abc123", 50, 60);
    write_aged("c.begun", 50, 3 * 86400);
    write_aged("d.begun", 50, 3600);
    write_aged("mine.txt", 50, 1000000);
    struct ca_cache_size size = ca_program_cache_trim(f.context, ULLONG_MAX);
    cr_expect(size.files == 3 && size.bytes == 3000);
    cr_expect(!is_there("a.clbin.tmp-abc123") && is_there("b.clbin.tmp-abc123"));
    cr_expect(!is_there("c.begun") && is_there("d.begun") && is_there("mine.txt"));
    size = ca_program_cache_trim(f.context, 1999);
    cr_expect(size.files == 1 && size.bytes == 1000);
    cr_expect(is_there("new.clbin") && !is_there("old.clbin") && !is_there("older.clbin"));
    fixture_close(&f);
}

static void make_plan(clattn_context *context, const char *text, clattn_plan **plan)
{
    const clattn_problem problem = fixture_problem(text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused_lanes"};

    cr_assert(clattn_plan_create(context, &problem, &options, plan) == CLATTN_SUCCESS);
}

static void use(clattn_context *context, const char *text)
{
    clattn_plan *plan;

    make_plan(context, text, &plan);
    clattn_plan_release(plan);
}

static const char first[] = "fwd f32 h2 q9 k20 d8", second[] = "fwd f32 h2 q9 k20 d24";

/* The only program's file, "" if it is not one; valid until the next call. */
static const char *only_program(void)
{
    static struct scratch_files found;

    found = scratch_find("programs", ".clbin");
    return found.count == 1 ? found.paths[0] : "";
}

/* A context keeps to the limit of its environment, and one that is used is used now. */
Test(cache_size, a_context_keeps_to_the_limit) {
    const time_t yesterday = time(NULL) - 86400;
    struct ca_file_facts facts;
    struct fixture f;
    size_t removed;
    char old[SCRATCH_PATH];

    fixture_open_checked(&f, scratch);
    use(f.context, first);
    cr_expect(clattn_context_trim(f.context) == CLATTN_SUCCESS);
    cr_assert(ca_file_follow(only_program(), &facts));
    cr_expect(facts.bytes > 4096, "what is let go is lost");
    fixture_close(&f);
    snprintf(old, sizeof old, "%s", only_program());
    cr_assert(old[0] != '\0' && scratch_set_time(old, yesterday));
    fixture_open_checked(&f, scratch);
    use(f.context, first);
    fixture_close(&f);
    cr_assert(ca_file_follow(old, &facts));
    cr_expect(facts.written > yesterday + 3600, "its use left no trace");

    cr_assert(scratch_set_time(old, yesterday));
    char limit[32];
    snprintf(limit, sizeof limit, "%llu", facts.bytes * 3 / 2);
    ca_variable_set("CLATTN_CACHE_MAX_SIZE", limit);
    fixture_open_checked(&f, scratch);
    use(f.context, second);
    fixture_close(&f);
    cr_expect(only_program()[0] && strcmp(only_program(), old) != 0, "%s", only_program());

    fixture_open_checked(&f, scratch);
    cr_expect(clattn_context_clear_cache(f.context, &removed) == CLATTN_SUCCESS && removed == 1);
    cr_expect(scratch_entries(scratch_path("programs")) == 0);
    cr_expect(clattn_context_clear_cache(f.context, NULL) == CLATTN_SUCCESS);
    cr_expect(clattn_context_clear_cache(NULL, &removed) == CLATTN_INVALID_ARGUMENT);
    fixture_close(&f);
}

/* A folder that cannot be read for want of memory is not taken for an empty one. */
Test(cache_size, without_memory) {
    struct fixture f;
    size_t removed;

    fixture_open_checked(&f, scratch);
    cr_assert(ca_folder_make(scratch_path("programs")));
    for (struct faults_rounds r = {0}; faults_next(&r);) {
        write_aged("some.clbin", 1000, 300);
        faults_begin(&r);
        const clattn_status cleared = clattn_context_clear_cache(f.context, &removed);
        cr_expect((cleared != CLATTN_SUCCESS) == faults_failed(&r), "%s", r.failed);
        cr_expect(cleared != CLATTN_SUCCESS || (removed == 1 && !is_there("some.clbin")));
    }
    write_aged("some.clbin", 1000, 300);
    for (struct faults_rounds r = {0}; faults_next(&r);) {
        faults_begin(&r);
        const clattn_status forgotten = ca_program_cache_forget(f.context, "", &removed);
        cr_expect((forgotten != CLATTN_SUCCESS) == faults_failed(&r), "%s", r.failed);
    }
    fixture_close(&f);
}

/* ---- in memory -------------------------------------------------------------------------------- */

static size_t programs_of(const clattn_context *context)
{
    size_t count = 0;

    for (const struct ca_program *made = context->programs; made; made = made->next)
        count++;
    return count;
}

/* Programs that a plan uses stay, and the most recently used ones go last. */
Test(cache_size, programs_without_a_plan_go) {
    clattn_plan *plan, *again;
    struct fixture f;

    fixture_open(&f);
    make_plan(f.context, first, &plan);
    use(f.context, second);
    cr_expect(programs_of(f.context) == 2 && clattn_context_builds(f.context) == 2);
    use(f.context, second);
    cr_expect(clattn_context_builds(f.context) == 2, "one without a plan is kept for the next");
    cr_expect(ca_programs_trim(f.context, 1) == 0);
    cr_expect(clattn_context_trim(f.context) == CLATTN_SUCCESS);
    cr_expect(programs_of(f.context) == 1, "%zu", programs_of(f.context));
    make_plan(f.context, first, &again);
    cr_expect(clattn_context_builds(f.context) == 2, "the plan's is there");
    clattn_plan_release(plan);
    cr_expect(clattn_context_trim(f.context) == CLATTN_SUCCESS && programs_of(f.context) == 1,
              "another plan has it");
    clattn_plan_release(again);
    use(f.context, second);
    use(f.context, first);
    cr_expect(ca_programs_trim(f.context, 1) == 1);
    use(f.context, first);
    cr_expect(clattn_context_builds(f.context) == 3, "the one that was used last is gone");
    clattn_context_trim(f.context);
    cr_expect(programs_of(f.context) == 0);
    cr_expect(clattn_context_trim(NULL) == CLATTN_INVALID_ARGUMENT);
    fixture_close(&f);
}

struct worker {
    pthread_t thread;
    clattn_context *context;
    const char *text;
    atomic_int *running;
    int made;
};

enum { WORKERS = 3, TURNS = 6 };

static void *make_often(void *user)
{
    struct worker *w = user;
    const clattn_problem problem = fixture_problem(w->text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused_lanes"};

    for (int n = 0; n < TURNS; n++) {
        clattn_plan *plan = NULL;
        w->made += clattn_plan_create(w->context, &problem, &options, &plan) == CLATTN_SUCCESS;
        clattn_plan_release(plan);
    }
    atomic_fetch_sub(w->running, 1);
    return NULL;
}

/* A program that one thread lets go while another is about to take it, or waits for it, is whole. */
Test(cache_size, programs_go_while_others_want_them) {
    struct worker workers[WORKERS];
    atomic_int running = WORKERS;
    struct fixture f;
    size_t gone = 0;

    fixture_open(&f);
    for (int n = 0; n < WORKERS; n++) {
        workers[n] =
            (struct worker){.context = f.context, .text = n ? first : second, .running = &running};
        cr_assert(pthread_create(&workers[n].thread, NULL, make_often, &workers[n]) == 0);
    }
    while (atomic_load(&running) > 0) {
        gone += ca_programs_trim(f.context, 0);
        ca_nap(1e-4);
    }
    for (int n = 0; n < WORKERS; n++) {
        pthread_join(workers[n].thread, NULL);
        cr_expect(workers[n].made == TURNS, "%d plans of %d", workers[n].made, TURNS);
    }
    cr_expect(gone + ca_programs_trim(f.context, 0) == clattn_context_builds(f.context));
    cr_expect(programs_of(f.context) == 0);
    fixture_close(&f);
}

/* ---- fork() ----------------------------------------------------------------------------------- */

#if !defined(_WIN32) /* where no process is copied, and none belongs to a control group */

/* A child process uses its parent's context: no call may wait for ever. */
static int use_in_child(struct fixture *f, clattn_plan *plan)
{
    const clattn_problem problem = fixture_problem(first);
    clattn_forward_tensors tensors = {.struct_size = sizeof tensors};
    clattn_plan *other;
    size_t count;

    f->log.errors = 0;
    if (clattn_plan_create(f->context, &problem, NULL, &other) != CLATTN_INVALID_ARGUMENT ||
        other || clattn_plan_supports(f->context, &problem, NULL) != CLATTN_INVALID_ARGUMENT ||
        !strstr(clattn_context_last_error(f->context), "fork()") ||
        clattn_attention_forward(plan, f->queue, &tensors, 0, NULL, NULL) !=
            CLATTN_INVALID_ARGUMENT ||
        clattn_tuning_forget(f->context, NULL, &count) != CLATTN_INVALID_ARGUMENT ||
        clattn_context_trim(f->context) != CLATTN_INVALID_ARGUMENT)
        return 1;
    if (f->log.errors < 4 || !strstr(f->log.last, "before fork()"))
        return 2;
    clattn_plan_release(plan);
    clattn_context_release(f->context);
    return 0;
}

Test(cache_size, a_child_cannot_use_its_parents_context) {
    struct fixture f;
    clattn_plan *plan;
    int state;

    fixture_open(&f);
    make_plan(f.context, first, &plan);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        alarm(20);
        ca_mutex_lock(&f.context->lock); /* as another thread of the parent may have */
        _exit(use_in_child(&f, plan));
    }
    cr_assert(waitpid(child, &state, 0) == child);
    cr_expect(WIFEXITED(state) && WEXITSTATUS(state) == 0, "state %#x", (unsigned)state);
    use(f.context, first);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* ---- the limits of a process ------------------------------------------------------------------ */

Test(cache_size, limits_of_control_groups) {
    const char *groups = scratch_path("groups"), *root = scratch_path("root");

    scratch_write(groups, "0::/a/b\n");
    cr_expect(ca_group_limit(groups, root) == ULLONG_MAX);
    scratch_write(scratch_path("root/a/b/memory.max"), "max\n");
    cr_expect(ca_group_limit(groups, root) == ULLONG_MAX);
    scratch_write(scratch_path("root/a/memory.max"), "83886080\n");
    cr_expect(ca_group_limit(groups, root) == 83886080);
    scratch_write(scratch_path("root/memory/c/memory.limit_in_bytes"), "4096\n");
    cr_expect(ca_group_limit(groups, root) == 83886080);
    scratch_write(groups, "5:cpu,memory:/c\n4:pids:/c\n");
    cr_expect(ca_group_limit(groups, root) == 4096);
    cr_expect(ca_group_limit(scratch_path("none"), root) == ULLONG_MAX);
}

#endif
