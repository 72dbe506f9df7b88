/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the cache directory is believed: not one that others could have written, and no link in it. What needs two users
 * runs as root alone. */
#define _XOPEN_SOURCE 700 /* chown, symlink */
#include "context/context.h"
#include "os/file.h"
#include "os/process.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/scratch.h"
#include "tests/support/programs/store_folder.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

TestSuite(cache_trust, .init = fixture_folder, .fini = scratch_close, .timeout = 300);

#if defined(_WIN32)

Test(cache_trust, owners_and_links) {
    cr_skip_test("owners, modes and links are those of POSIX: Windows keeps a user's folders from "
                 "others by itself");
}

#else

static const char problem_text[] = "fwd f32 h2 q9 k20 d8";
enum { STRANGER = 2001 };

/* A context with this cache directory (NULL: by default), and what it says. */
static clattn_context *open_context(const char *directory, struct store_warnings *warnings)
{
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = store_warn,
                                            .log_user_data = warnings,
                                            .cache_directory = directory};
    clattn_context *context;

    memset(warnings, 0, sizeof *warnings);
    cr_assert(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS);
    return context;
}

static void make_plan(clattn_context *context)
{
    const clattn_problem problem = fixture_problem(problem_text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused_lanes"};
    clattn_plan *plan;

    cr_assert(clattn_plan_create(context, &problem, &options, &plan) == CLATTN_SUCCESS);
    clattn_plan_release(plan);
}

/* Any plan: what was tuned is looked at. */
static void use_default(clattn_context *context)
{
    const clattn_problem problem = fixture_problem(problem_text);

    cr_assert(clattn_plan_supports(context, &problem, NULL) == CLATTN_SUCCESS);
}

/* A context with it does without, says why, and neither reads nor writes there. */
static void expect_refused(const char *directory, const char *words)
{
    struct store_warnings warnings;

    clattn_context *context = open_context(directory, &warnings);
    cr_expect(context->cache_directory == NULL, "%s is used", directory ? directory : "HOME");
    cr_expect(warnings.count == 1 && strstr(warnings.last, words) &&
                  strstr(warnings.last, "CLATTN_CACHE_DIR"),
              "%zu: %s", warnings.count, warnings.last);
    clattn_context_release(context);
}

Test(cache_trust, a_folder_that_others_may_write_to) {
    const char *folder = scratch_path("folder");
    struct store_warnings warnings;

    cr_assert(ca_folder_make(folder) && chmod(folder, 0777) == 0);
    expect_refused(folder, "everybody may write to it (its mode is 777)");
    cr_assert(chmod(folder, 0755) == 0);
    clattn_context *context = open_context(folder, &warnings);
    cr_expect(context->cache_directory != NULL && warnings.count == 0, "%s", warnings.last);
    clattn_context_release(context);
    if (geteuid() != 0)
        cr_skip_test("only root can give a folder to a group that is not its own");
    cr_assert(chmod(folder, 0775) == 0);
    context = open_context(folder, &warnings);
    cr_expect(context->cache_directory != NULL && warnings.count == 0, "its owner's own group");
    clattn_context_release(context);
    cr_assert(chown(folder, 0, STRANGER) == 0);
    expect_refused(folder, "a group may write to it (its mode is 775)");
}

/* Its programs are code of whoever wrote them. */
Test(cache_trust, a_folder_of_another_user) {
    const char *folder = scratch_path("folder");

    if (geteuid() != 0)
        cr_skip_test("only root can give a folder to another user");
    cr_assert(ca_folder_make(folder) && chown(folder, STRANGER, STRANGER) == 0);
    expect_refused(folder, "it belongs to user 2001, not to user 0");
    cr_expect(scratch_entries(folder) == 0);
}

/* As after sudo without -H, and su without -. */
Test(cache_trust, a_home_of_another_user) {
    const char *home = scratch_path("home");
    static const char *const parts[] = {"", ".cache", ".cache/clattn"};

    if (geteuid() != 0)
        cr_skip_test("only root can give a folder to another user");
    ca_variable_set("CLATTN_CACHE_DIR", NULL);
    ca_variable_set("XDG_CACHE_HOME", NULL);
    ca_variable_set("HOME", home);
    ca_variable_set("POCL_CACHE_DIR",
                    scratch_path("pocl")); /* PoCL's own would be made in the home */
    for (size_t n = 0; n < 3; n++) {       /* whatever of it is there */
        const char *part = n ? scratch_path("home/%s", parts[n]) : home;
        cr_assert(ca_folder_make(part));
        if (n < 2) /* the last was made by root, in the user's */
            cr_assert(chown(part, STRANGER, STRANGER) == 0);
        expect_refused(NULL, "is of another user: it belongs to user 2001");
    }
    ca_variable_set("XDG_CACHE_HOME", scratch_path("home/.cache"));
    cr_assert(rmdir(scratch_path("home/.cache/clattn")) == 0);
    expect_refused(NULL, "is of another user: it belongs to user 2001");
    cr_expect(scratch_entries(scratch_path("home/.cache")) == 0, "something was made there");
}

static void expect_text(const char *path, const char *text)
{
    char *found = scratch_read(path, NULL);

    cr_expect(strcmp(found, text) == 0, "%s: '%s'", path, found);
    free(found);
}

/* The target of a link in the cache is neither read nor written nor made. */
Test(cache_trust, links_are_not_followed) {
    const char *precious = scratch_path("precious"), *cache = scratch_path("cache");
    struct store_warnings warnings;
    char path[SCRATCH_PATH];

    clattn_context *context = open_context(cache, &warnings);
    make_plan(context);
    clattn_context_release(context);
    const struct scratch_files found = scratch_find("cache/programs", ".clbin");
    cr_assert(found.count == 1);
    snprintf(path, sizeof path, "%s", found.paths[0]);

    scratch_write(precious, "precious");
    cr_assert(rename(path, scratch_path("program")) == 0 &&
              symlink(scratch_path("program"), path) == 0);
    strcpy(strstr(path, ".clbin"), ".begun");
    cr_assert(symlink(precious, path) == 0);
    context = open_context(cache, &warnings);
    snprintf(path, sizeof path, "%s", ca_store_path(context->store));
    cr_assert(ca_folder_make(scratch_path("cache/tuning")) && symlink(precious, path) == 0);
    make_plan(context);
    use_default(context);
    cr_expect(warnings.count == 2, "%s", warnings.last);
    cr_expect(clattn_context_builds(context) == 1, "the program behind the link was used");
    clattn_context_release(context);
    expect_text(precious, "precious");
}

/* A folder in the cache may be no link either. */
Test(cache_trust, linked_folders_are_not_followed) {
    const char *cache = scratch_path("cache"), *other = scratch_path("other");
    struct store_warnings warnings;
    size_t removed;

    cr_assert(ca_folder_make(cache) && ca_folder_make(other));
    cr_assert(symlink(other, scratch_path("cache/programs")) == 0);
    cr_assert(symlink(other, scratch_path("cache/tuning")) == 0);
    clattn_context *context = open_context(cache, &warnings);
    make_plan(context);
    cr_expect(warnings.count > 0 && strstr(warnings.last, "cannot be written"), "%s",
              warnings.last);
    cr_expect(clattn_tuning_forget(context, NULL, &removed) == CLATTN_SUCCESS && removed == 0);
    clattn_context_release(context);
    cr_expect(scratch_entries(other) == 0, "something was made there");
}

/* Nor is a file that another user put there, when the folder was open to all. */
Test(cache_trust, a_program_of_another_user) {
    struct store_warnings warnings;

    if (geteuid() != 0)
        cr_skip_test("only root can give a file to another user");
    for (int run = 0; run < 3; run++) {
        clattn_context *context = open_context(scratch, &warnings);
        make_plan(context);
        cr_expect(warnings.count == (run == 1), "run %d: %s", run, warnings.last);
        if (run == 1)
            cr_expect(strstr(warnings.last, "it belongs to user 2001"), "%s", warnings.last);
        clattn_context_release(context);
        const struct scratch_files found = scratch_find("programs", ".clbin");
        cr_assert(found.count == 1);
        if (run == 0)
            cr_assert(chown(found.paths[0], STRANGER, STRANGER) == 0);
    }
}

#endif
