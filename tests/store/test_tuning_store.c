/* SPDX-License-Identifier: Apache-2.0 */
/* The public verbs of clattn/tuning.h on the store: every status that the header promises. */
#define _POSIX_C_SOURCE 200809L /* mkfifo, umask */
#include "context/context.h"
#include "store/store.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/store_folder.h"
#include "tests/support/tables.h"
#include <clattn/tuning.h>

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(tuning_store, .init = scratch_open, .fini = scratch_close, .timeout = 120);

/* Two of one class, for it rounds; one of another. */
static const char problem_a[] = "fwd f32 b1 h8 q120 k130 d64",
                  class_a[] = "fwd f32 b1 h8 q128 k128 d64",
                  class_b[] = "fwd f16 b1 h8 q128 k128 d64";

static void put(struct fixture *f, const char *problem_class, size_t config, double seconds)
{
    struct made_entry made;

    cr_assert(ca_store_put(f->context->store, problem_class, table_entry(&made, config, seconds),
                           1) == CLATTN_SUCCESS);
}

static void put_stale(struct fixture *f, const char *problem_class, size_t config, double seconds)
{
    struct made_entry made;
    const struct ca_entry *entry = table_entry(&made, config, seconds);

    made.texts.declaration[0] = made.texts.declaration[0] == '0' ? '1' : '0';
    cr_assert(ca_store_put(f->context->store, problem_class, entry, 1) == CLATTN_SUCCESS);
}

static void ban(struct fixture *f, const char *problem_class, size_t config)
{
    struct made_entry made;
    const struct ca_banned banned =
        table_banned(table_entry(&made, config, 1.0), problem_class, "took too long twice");

    cr_assert(ca_store_ban(f->context->store, &banned) == CLATTN_SUCCESS);
}

/* The entries that a listing visits, a line each. It ends the listing after `left` of them. */
struct listing {
    char text[2048];
    size_t left;
};

static int visit(const clattn_tuning_entry *entry, void *user_data)
{
    struct listing *listing = user_data;
    const size_t length = strlen(listing->text);

    cr_assert(entry->struct_size == sizeof *entry && strlen(entry->when) == 20);
    cr_assert(strcmp(entry->family, "unfused") == 0);
    cr_assert((entry->quarantine == NULL) == (entry->seconds > 0.0));
    cr_assert((entry->quarantine == NULL) == (entry->samples != NULL));
    if (!entry->quarantine)
        cr_assert(entry->num_samples == 3 && entry->samples[0] == entry->seconds &&
                  entry->low < entry->seconds && entry->high > entry->seconds &&
                  entry->error == 0.25 && strcmp(entry->policy, "three at once") == 0);
    snprintf(listing->text + length, sizeof listing->text - length, "%.7s %s %s%zu%s\n",
             entry->problem_class, entry->tunables, entry->quarantine ? entry->quarantine : "#",
             entry->rank, entry->stale ? " stale" : "");
    return --listing->left == 0;
}

static struct listing list(struct fixture *f, const char *problem, size_t most)
{
    const clattn_problem p = problem ? fixture_problem(problem) : (clattn_problem){0};
    struct listing listing = {"", most};

    cr_assert(clattn_tuning_list(f->context, problem ? &p : NULL, visit, &listing) ==
              CLATTN_SUCCESS);
    return listing;
}

static void expect_list(struct fixture *f, const char *text)
{
    const struct listing found = list(f, NULL, SIZE_MAX);

    cr_expect_str_eq(found.text, text);
}

static const char whole_list[] = "fwd f16 A=3 B=2 #0\n"
                                 "fwd f32 A=2 B=2 #0\n"
                                 "fwd f32 A=1 B=2 #1\n"
                                 "fwd f32 A=4 B=2 #2 stale\n"
                                 "fwd f32 A=5 B=2 took too long twice0\n";

static void put_whole_list(struct fixture *f)
{
    put(f, class_a, 1, 2.0);
    put(f, class_a, 2, 1.0);
    put_stale(f, class_a, 4, 0.5);
    put(f, class_b, 3, 1.0);
    ban(f, class_a, 5);
}

/* ---- path ------------------------------------------------------------------------------------ */

Test(tuning_store, path) {
    char text[512] = "x", small[8] = "xxxxxxx";
    struct fixture f;
    size_t needed = 0;

    fixture_open_checked(&f, scratch);
    cr_expect(clattn_tuning_path(f.context, text, sizeof text, &needed) == CLATTN_SUCCESS);
    cr_expect(strncmp(text, scratch, strlen(scratch)) == 0 && strstr(text, "/tuning/"), "%s", text);
    cr_expect(needed == strlen(text) + 1);
    cr_expect(clattn_tuning_path(f.context, text, needed, NULL) == CLATTN_SUCCESS);
    cr_expect(clattn_tuning_path(f.context, small, 8, &needed) == CLATTN_BUFFER_TOO_SMALL);
    cr_expect(needed == strlen(text) + 1 && strncmp(small, text, 7) == 0 && small[7] == '\0');
    cr_expect(clattn_tuning_path(f.context, NULL, 0, &needed) == CLATTN_BUFFER_TOO_SMALL);
    cr_expect(needed == strlen(text) + 1);
    cr_expect(clattn_tuning_path(f.context, NULL, 1, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_tuning_path(NULL, text, sizeof text, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(needed == 0 && text[0] == '\0');
    cr_expect(!scratch_has(text));
    fixture_close(&f);

    fixture_open_checked(&f, "");
    cr_expect(clattn_tuning_path(f.context, text, sizeof text, &needed) == CLATTN_SUCCESS);
    cr_expect(text[0] == '\0' && needed == 1);
    fixture_close(&f);
}

/* ---- list ------------------------------------------------------------------------------------ */

Test(tuning_store, list) {
    struct fixture f;
    struct listing found;

    fixture_open_checked(&f, scratch);
    expect_list(&f, "");
    put_whole_list(&f);
    expect_list(&f, whole_list);
    found = list(&f, NULL, 2);
    cr_expect_str_eq(found.text, "fwd f16 A=3 B=2 #0\nfwd f32 A=2 B=2 #0\n");
    found = list(&f, problem_a, SIZE_MAX);
    cr_expect_str_eq(found.text, strstr(whole_list, "fwd f32"));
    found = list(&f, "fwd f32 b1 h8 q128 k128 d32", SIZE_MAX);
    cr_expect_str_eq(found.text, "");

    clattn_problem wrong = fixture_problem(problem_a);
    wrong.dim_qk = 0;
    fixture_refused(&f, clattn_tuning_list(f.context, &wrong, visit, &found),
                    CLATTN_INVALID_PROBLEM, "dim_qk");
    cr_expect(clattn_tuning_list(NULL, NULL, visit, &found) == CLATTN_INVALID_ARGUMENT);
    fixture_refused(&f, clattn_tuning_list(f.context, NULL, NULL, &found), CLATTN_INVALID_ARGUMENT,
                    "visitor");
    fixture_close(&f);
}

/* ---- export and import ----------------------------------------------------------------------- */

Test(tuning_store, export_and_import) {
    const char *path = scratch_path("made/on the way/export.json");
    struct fixture f;
    size_t taken = 99;

    fixture_open_checked(&f, scratch);
    cr_expect(clattn_tuning_export(f.context, path) == CLATTN_NOT_TUNED);
    cr_expect(!scratch_has(path) && fixture_said(&f, "nothing"));
    put_whole_list(&f);
    cr_assert(clattn_tuning_export(f.context, path) == CLATTN_SUCCESS, "%s", f.log.last);

    fixture_close(&f);

    fixture_open_checked(&f, scratch_path("other"));
    put(&f, class_a, 9, 0.75);
    cr_assert(clattn_tuning_import(f.context, path, &taken) == CLATTN_SUCCESS, "%s", f.log.last);
    cr_expect(taken == 5, "%zu", taken);
    expect_list(&f, "fwd f16 A=3 B=2 #0\n"
                    "fwd f32 A=9 B=2 #0\n"
                    "fwd f32 A=2 B=2 #1\n"
                    "fwd f32 A=1 B=2 #2\n"
                    "fwd f32 A=4 B=2 #3 stale\n"
                    "fwd f32 A=5 B=2 took too long twice0\n");
    cr_assert(clattn_tuning_import(f.context, path, &taken) == CLATTN_SUCCESS && taken == 0);
    cr_assert(clattn_tuning_import(f.context, path, NULL) == CLATTN_SUCCESS);
    cr_expect(f.log.warnings == 0 && f.log.errors == 0);
    fixture_close(&f);
}

/* Imports a table, which it frees, and expects that so many entries were taken. */
static void import(struct fixture *f, struct ca_table table, size_t expected)
{
    const char *path = scratch_path("import.json");
    char *text = table_text(&table);
    size_t taken = 99;

    scratch_write(path, text);
    cr_assert(clattn_tuning_import(f->context, path, &taken) == CLATTN_SUCCESS, "%s", f->log.last);
    cr_expect(taken == expected, "%zu, not %zu", taken, expected);
    free(text);
    ca_table_free(&table);
}

/* A table of a device with one class. */
static struct ca_table table_of(const clattn_device_info *dev, size_t first, size_t count)
{
    struct ca_table table = {NULL, 0};
    const struct ca_log log = {.callback = NULL};
    struct ca_store *store = ca_store_create(NULL, dev, &log);
    struct made_entry made;

    for (size_t n = first; n < first + count; n++)
        cr_assert(ca_store_put(store, class_a, table_entry(&made, n, 1e-3 * (double)(n + 1)), 1) ==
                  CLATTN_SUCCESS);
    cr_assert(ca_table_merge(&table, ca_store_lock(store).table, NULL));
    ca_store_unlock(store);
    ca_store_destroy(store);
    return table;
}

Test(tuning_store, import_takes_what_is_of_this_device) {
    struct fixture f;

    fixture_open_checked(&f, scratch);
    clattn_device_info dev = f.context->device;
    snprintf(dev.name, sizeof dev.name, "Another device");
    import(&f, table_of(&dev, 0, 3), 0);
    expect_list(&f, "");
    cr_expect(f.log.warnings == 1, "it says whose results they are");

    dev = f.context->device; /* with another driver */
    snprintf(dev.driver_version, sizeof dev.driver_version, "0.1");
    import(&f, table_of(&dev, 0, 3), 3);
    expect_list(&f, "fwd f32 A=0 B=2 #0 stale\nfwd f32 A=1 B=2 #1 stale\n"
                    "fwd f32 A=2 B=2 #2 stale\n");

    /* a class keeps five, and what is cut was not taken */
    import(&f, table_of(&f.context->device, 0, 4), 4);
    import(&f, table_of(&f.context->device, 2, 5), 1);
    expect_list(&f, "fwd f32 A=0 B=2 #0\nfwd f32 A=1 B=2 #1\nfwd f32 A=2 B=2 #2\n"
                    "fwd f32 A=3 B=2 #3\nfwd f32 A=4 B=2 #4\nfwd f32 A=0 B=2 #5 stale\n"
                    "fwd f32 A=1 B=2 #6 stale\nfwd f32 A=2 B=2 #7 stale\n");
    fixture_close(&f);
}

Test(tuning_store, export_to_strange_places) {
    struct fixture f;

    fixture_open_checked(&f, scratch);
    put_whole_list(&f);
    fixture_refused(&f, clattn_tuning_export(f.context, "/dev/null/export"), CLATTN_FILE_ERROR,
                    "/dev/null/export");
    fixture_refused(&f, clattn_tuning_export(f.context, scratch), CLATTN_FILE_ERROR, scratch);
    fixture_refused(&f, clattn_tuning_export(f.context, NULL), CLATTN_INVALID_ARGUMENT, "path");
    cr_expect(clattn_tuning_export(NULL, scratch) == CLATTN_INVALID_ARGUMENT);

#if !defined(_WIN32) /* which has no pipes in folders, and no modes */
    const char *path = scratch_path("fifo");
    char text[20000];
    struct stat info;

    /* what is no regular file is written to, not replaced */
    cr_assert(mkfifo(path, 0600) == 0);
    const int end = open(path, O_RDWR | O_NONBLOCK);
    cr_assert(end >= 0 && clattn_tuning_export(f.context, path) == CLATTN_SUCCESS);
    cr_expect(read(end, text, sizeof text) > 1000 && strncmp(text, "{\n \"format\"", 11) == 0);
    cr_expect(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
    close(end);

    /* others may read it, as any file that this process makes, or as before */
    const mode_t mask = umask(022);
    path = scratch_path("export.json");
    for (int run = 0; run < 2; run++) {
        cr_assert(clattn_tuning_export(f.context, path) == CLATTN_SUCCESS);
        cr_expect(stat(path, &info) == 0 && (info.st_mode & 0777) == (run ? 0640 : 0644));
        cr_assert(chmod(path, 0640) == 0);
    }
    umask(mask);
#endif
    fixture_close(&f);
}

Test(tuning_store, imports_that_fail) {
    const char *path = scratch_path("export.json");
    struct fixture f;
    size_t taken = 99;

    fixture_open_checked(&f, scratch);
    put_whole_list(&f);
    cr_expect(clattn_tuning_import(f.context, path, &taken) == CLATTN_FILE_ERROR && taken == 0);
    cr_expect(fixture_said(&f, path));
    scratch_write(path, "{\"format\"");
    cr_expect(clattn_tuning_import(f.context, path, &taken) == CLATTN_FILE_ERROR && taken == 0);
    cr_expect(fixture_said(&f, "not JSON"));
    cr_expect(scratch_has(path), "a file of the caller's is not set aside");
    cr_expect(clattn_tuning_import(f.context, scratch, &taken) == CLATTN_FILE_ERROR && taken == 0);
    cr_expect(fixture_said(&f, scratch));
    fixture_refused(&f, clattn_tuning_import(f.context, CLATTN_TEST_DATA "/store/nan", &taken),
                    CLATTN_FILE_ERROR, "JSON");
    fixture_refused(&f, clattn_tuning_import(f.context, NULL, &taken), CLATTN_INVALID_ARGUMENT,
                    "path");
    cr_expect(clattn_tuning_import(NULL, path, &taken) == CLATTN_INVALID_ARGUMENT);
    expect_list(&f, whole_list);

    cr_assert(clattn_tuning_export(f.context, path) == CLATTN_SUCCESS);
    fixture_close(&f);
    fixture_open_checked(&f, "/dev/null/store");
    cr_expect(clattn_tuning_import(f.context, path, &taken) == CLATTN_FILE_ERROR && taken == 0);
    cr_expect(fixture_said(&f, "/dev/null/store"));
    expect_list(&f, "");
    fixture_close(&f);
    fixture_open_checked(&f, "");
    cr_expect(clattn_tuning_import(f.context, path, &taken) == CLATTN_SUCCESS && taken == 5);
    expect_list(&f, whole_list);
    fixture_close(&f);
}

/* ---- merge ----------------------------------------------------------------------------------- */

static void expect_text(const char *path, const char *text)
{
    char *found = scratch_read(path, NULL);

    cr_expect_str_eq(found, text);
    free(found);
}

Test(tuning_store, merge) {
    enum { FILES = 4 };
    char paths[FILES][600], reason[256] = "x";
    const char *forth[FILES], *back[2 * FILES];
    struct rng rng = rng_seed(1);

    for (size_t n = 0; n < FILES; n++) {
        struct ca_table table = table_random(&rng);
        char *text = table_text(&table);
        snprintf(paths[n], sizeof paths[n], "%s/%zu.json", scratch, n);
        scratch_write(paths[n], text);
        forth[n] = back[FILES - 1 - n] = back[FILES + n] = paths[n];
        free(text);
        ca_table_free(&table);
    }
    const char *to = scratch_path("all.json");
    cr_assert(clattn_tuning_merge(forth, FILES, to, reason, sizeof reason) == CLATTN_SUCCESS);
    cr_expect_str_eq(reason, "");
    char *first = scratch_read(to, NULL);
    cr_assert(clattn_tuning_merge(back, 2 * FILES, to, NULL, 0) == CLATTN_SUCCESS);
    expect_text(to, first);
    cr_assert(clattn_tuning_merge(back, 2 * FILES, paths[0], NULL, 0) == CLATTN_SUCCESS);
    expect_text(paths[0], first);

    const char *const wrong[] = {paths[1], CLATTN_TEST_DATA "/store/foreign-version"};
    cr_expect(clattn_tuning_merge(wrong, 2, to, reason, sizeof reason) == CLATTN_FILE_ERROR);
    cr_expect(strstr(reason, "foreign-version: its version is not 1") != NULL, "%s", reason);
    const char *const missing[] = {paths[1], "/nowhere/x.json"};
    cr_expect(clattn_tuning_merge(missing, 2, to, reason, sizeof reason) == CLATTN_FILE_ERROR);
    cr_expect(strstr(reason, "/nowhere/x.json: it cannot be opened") != NULL, "%s", reason);
    expect_text(to, first);
    cr_expect(clattn_tuning_merge(forth, FILES, "/dev/null/x", reason, sizeof reason) ==
              CLATTN_FILE_ERROR);
    cr_expect(strstr(reason, "/dev/null/x cannot be written") != NULL, "%s", reason);
    const char *const null[] = {paths[1], NULL};
    cr_expect(clattn_tuning_merge(null, 2, to, reason, sizeof reason) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strlen(reason) > 0);
    cr_expect(clattn_tuning_merge(forth, 0, to, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_tuning_merge(NULL, 1, to, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_tuning_merge(forth, 1, NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    free(first);
}

/* ---- forget ---------------------------------------------------------------------------------- */

Test(tuning_store, forget) {
    clattn_problem problem = fixture_problem(problem_a);
    struct fixture f;
    size_t removed = 99;

    fixture_open_checked(&f, scratch);
    cr_expect(clattn_tuning_forget(f.context, NULL, &removed) == CLATTN_SUCCESS && removed == 0);
    put_whole_list(&f);
    cr_expect(clattn_tuning_forget(f.context, &problem, &removed) == CLATTN_SUCCESS);
    cr_expect(removed == 4, "%zu", removed);
    expect_list(&f, "fwd f16 A=3 B=2 #0\n");
    put_whole_list(&f);
    cr_expect(clattn_tuning_forget(f.context, NULL, &removed) == CLATTN_SUCCESS && removed == 5);
    expect_list(&f, "");
    put_whole_list(&f);
    cr_expect(clattn_tuning_forget(f.context, NULL, NULL) == CLATTN_SUCCESS);
    problem.dim_v = 0;
    cr_expect(clattn_tuning_forget(f.context, &problem, &removed) == CLATTN_INVALID_PROBLEM);
    cr_expect(removed == 0 && fixture_said(&f, "dim_v"));
    cr_expect(clattn_tuning_forget(NULL, NULL, &removed) == CLATTN_INVALID_ARGUMENT);
    fixture_close(&f);

    fixture_open_checked(&f, "/dev/null/store");
    put_whole_list(&f);
    cr_expect(clattn_tuning_forget(f.context, NULL, &removed) == CLATTN_FILE_ERROR);
    cr_expect(removed == 0 && fixture_said(&f, "/dev/null/store"));
    expect_list(&f, whole_list);
    fixture_close(&f);
}

/* ---- without memory -------------------------------------------------------------------------- */

Test(tuning_store, allocations_that_fail) {
    const char *path = scratch_path("export.json"), *to = scratch_path("merged.json");
    const char *const paths[] = {path, path};
    char reason[256];
    const long alive_before = faults_allocations_alive();
    struct fixture f;

    fixture_open_checked(&f, scratch);
    put_whole_list(&f);
    cr_assert(clattn_tuning_export(f.context, path) == CLATTN_SUCCESS);
    for (int verb = 0; verb < 5; verb++) { /* after the last the store holds other things */
        for (struct faults_rounds r = {.kept = verb == 4}; faults_next(&r);) {
            struct listing listing = {"", SIZE_MAX};
            size_t changed = 0;
            cr_assert(clattn_tuning_import(f.context, path, &changed) == CLATTN_SUCCESS);
            expect_list(&f, whole_list);
            memset(&f.log, 0, sizeof f.log);
            faults_begin(&r);
            const clattn_status status =
                verb == 0   ? clattn_tuning_list(f.context, NULL, visit, &listing)
                : verb == 1 ? clattn_tuning_export(f.context, to)
                : verb == 2 ? clattn_tuning_import(f.context, path, &changed)
                : verb == 3 ? clattn_tuning_merge(paths, 2, to, reason, sizeof reason)
                            : clattn_tuning_forget(f.context, NULL, &changed);
            const int failed = faults_failed(&r);
            /* writing a file fails for lack of memory as for any other reason */
            cr_assert(status == CLATTN_SUCCESS || (failed && status == CLATTN_OUT_OF_MEMORY) ||
                          (failed && status == CLATTN_FILE_ERROR && verb > 0),
                      "verb %d, step %zu: %s", verb, r.n, clattn_status_string(status));
            cr_assert(r.n > 0 || status == CLATTN_OUT_OF_MEMORY);
            cr_expect(status == CLATTN_SUCCESS || (verb == 3 ? reason[0] : f.log.errors == 1));
            cr_expect(f.log.warnings == 0);
        }
    }
    fixture_close(&f);
#if !defined(_WIN32) /* whose C library keeps memory in which it prints doubles */
    cr_expect(faults_allocations_alive() == alive_before);
#else
    (void)alive_before;
#endif
}
