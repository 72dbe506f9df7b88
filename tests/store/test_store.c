/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what it keeps, of which drivers, under which names, and how it does without a place to
 * write or without memory. */
#include "os/file.h"
#include "tests/faults/faults.h"
#include "tests/support/programs/store_folder.h"
#include "tests/support/tables.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(store, .init = store_begin, .fini = store_end, .timeout = 120);

static const char class[] = "fwd f32 b1 h8 q128 k128 d64";

/* ---- keeping --------------------------------------------------------------------------------- */

Test(store, keeps_what_is_put) {
    char text[512];

    cr_expect(!scratch_has(ca_store_path(the_store)), "nothing is written before it must");
    cr_expect(store_count(the_store, 0) == 0);
    for (size_t n = 0; n < 7; n++)
        store_put(the_store, class, n, 1e-3 * (double)(8 - n));
    store_order(the_store, class, text);
    cr_expect_str_eq(text, "A=6 B=2, A=5 B=2, A=4 B=2, A=3 B=2, A=2 B=2");
    store_put(the_store, class, 4, 1e-5); /* measured again */
    store_order(the_store, class, text);
    cr_expect_str_eq(text, "A=4 B=2, A=6 B=2, A=5 B=2, A=3 B=2, A=2 B=2");
    store_again();
    store_order(the_store, class, text);
    cr_expect_str_eq(text, "A=4 B=2, A=6 B=2, A=5 B=2, A=3 B=2, A=2 B=2");
    cr_expect(store_said.count == 0, "%s", store_said.last);
}

/* Entries that were measured with another kernel source are removed first, however fast they
 * were. */
Test(store, stale_entries_are_cut_first) {
    char text[512];
    struct made_entry made;

    for (size_t n = 0; n < 5; n++) {
        const struct ca_entry *entry = table_entry(&made, n, 1e-9 * (double)(n + 1));
        table_stale(&made);
        cr_assert(ca_store_put(the_store, class, entry, 1) == CLATTN_SUCCESS);
    }
    store_put(the_store, class, 10, 1.0);
    store_put(the_store, class, 11, 2.0);
    store_order(the_store, class, text);
    cr_expect_str_eq(text, "A=0 B=2, A=1 B=2, A=2 B=2, A=10 B=2, A=11 B=2");
    for (size_t n = 12; n < 16; n++)
        store_put(the_store, class, n, 3.0);
    store_order(the_store, class, text);
    cr_expect_str_eq(text, "A=10 B=2, A=11 B=2, A=12 B=2, A=13 B=2, A=14 B=2");
}

/* An entry that claims to be fast but was found to be wrong must not keep others out. */
Test(store, banned_entries_are_cut_before_all_others) {
    char text[512];
    struct made_entry made;

    for (size_t n = 0; n < 5; n++) {
        const struct ca_entry *entry = table_entry(&made, n, 1e-9);
        store_unfused_tunables(n, made.texts.tunables, sizeof made.texts.tunables);
        const struct ca_banned banned = table_banned(entry, class, "computes wrong results");
        cr_assert(ca_store_put(the_store, class, entry, 1) == CLATTN_SUCCESS);
        if (n < 4)
            cr_assert(ca_store_ban(the_store, &banned) == CLATTN_SUCCESS);
    }
    char sound[sizeof made.texts.tunables + 64];
    snprintf(sound, sizeof sound, "%s, A=10 B=2, A=11 B=2, A=12 B=2, A=13 B=2",
             made.texts.tunables);
    for (size_t n = 10; n < 14; n++)
        store_put(the_store, class, n, 1e-3 * (double)n);
    store_order(the_store, class, text);
    cr_expect_str_eq(text, sound);
}

Test(store, a_ban_keeps_its_first_reason) {
    struct made_entry made;
    const struct ca_entry *entry = table_entry(&made, 1, 1.0);
    char when[] = "2020-01-01T00:00:00Z";
    struct ca_banned banned = table_banned(entry, class, "crashed twice\n\x1b[31m");

    for (int n = 0; n < 2; n++) {
        cr_assert(ca_store_ban(the_store, &banned) == CLATTN_SUCCESS);
        banned = table_banned(entry, class, "crashed twice");
        banned.when = when;
    }
    const struct ca_view view = ca_store_lock(the_store);
    cr_assert(view.own && view.own->num_banned == 1);
    cr_expect_str_eq(view.own->banned[0].reason, "crashed twice??[31m");
    ca_store_unlock(the_store);
}

/* An entry with which a file could not be read is not written. */
Test(store, takes_nothing_that_it_could_not_read) {
    char wrong[] = "../x";
    struct made_entry made;
    const struct ca_entry good = *table_entry(&made, 1, 1.0);
    double many[1000];

    for (int n = 0; n < 6; n++) {
        struct ca_entry entry = good;
        entry.seconds = n == 0 ? 0.0 : entry.seconds;
        entry.num_samples = n == 1 ? 0 : entry.num_samples;
        entry.error = n == 2 ? -1.0 : entry.error;
        entry.tunables = n == 3 ? wrong : entry.tunables;
        entry.policy = n == 4 ? (char *)"a\nb" : entry.policy;
        cr_expect(ca_store_put(the_store, n == 5 ? wrong : class, &entry, 1) ==
                  CLATTN_INVALID_ARGUMENT);
    }
    struct ca_banned banned = table_banned(&good, class, good.policy);
    banned.family = wrong;
    cr_expect(ca_store_ban(the_store, &banned) == CLATTN_INVALID_ARGUMENT);
    cr_expect(store_said.errors == 7);
    cr_expect(!scratch_has(ca_store_path(the_store)));

    /* more samples and digits than are kept */
    struct ca_entry entry = good;
    for (size_t n = 0; n < 1000; n++)
        many[n] = (double)(n + 1);
    many[0] = 1.0 / 3.0;
    entry.samples = many;
    entry.num_samples = 1000;
    cr_assert(ca_store_put(the_store, class, &entry, 1) == CLATTN_SUCCESS);
    const struct ca_view view = ca_store_lock(the_store);
    const struct ca_entry *kept = &ca_device_table_class(view.own, class)->entries[0];
    cr_expect(kept->num_samples == CA_TABLE_SAMPLES && kept->samples[0] == 0.3333333, "rounded");
    cr_expect(kept->samples[CA_TABLE_SAMPLES - 1] > 980.0);
    ca_store_unlock(the_store);
}

/* ---- other drivers, other stores of this process --------------------------------------------- */

Test(store, other_drivers_results_are_seen) {
    struct store_warnings warnings, others;

    struct ca_store *old = store_open(scratch, "1", &warnings);
    store_put(old, class, 1, 1.0);
    struct ca_store *new = store_open(scratch, "2", &others);
    cr_expect_str_neq(ca_store_path(old), ca_store_path(new));
    cr_expect(store_count(new, 0) == 1 && store_count(new, 1) == 0);
    store_put(new, class, 2, 1.0);
    cr_expect(store_count(new, 0) == 2 && store_count(new, 1) == 1);
    cr_expect(store_count(old, 0) == 2 && store_count(old, 1) == 1,
              "a file that came later is seen");

    size_t removed;
    cr_assert(ca_store_forget(new, class, &removed) == CLATTN_SUCCESS && removed == 2);
    cr_expect(store_count(old, 0) == 0 && store_count(new, 0) == 0);
    cr_assert(ca_store_forget(new, NULL, &removed) == CLATTN_SUCCESS && removed == 0);
    ca_store_destroy(old);
    ca_store_destroy(new);
    cr_expect(warnings.count == 0 && others.count == 0);
}

Test(store, two_stores_of_one_process_see_each_other) {
    struct store_warnings warnings;

    struct ca_store *other = store_open(scratch, "1", &warnings);
    for (size_t n = 0; n < 4; n++) {
        store_put(n % 2 ? the_store : other, class, n, 1.0);
        cr_expect(store_count(the_store, 1) == n + 1 && store_count(other, 1) == n + 1);
    }
    cr_expect(ca_file_remove(CA_NO_FILE, ca_store_path(the_store)));
    cr_expect(store_count(the_store, 0) == 0, "a file that was removed is forgotten");
    ca_store_destroy(other);
}

/* A name of a device is a name of a file, and no more. */
Test(store, names_of_files) {
    static const struct {
        const char *device, *begin;
    } names[] = {
        {"NVIDIA H200 141GB", "nvidia-h200-141gb-"},
        {"../../../etc/passwd", "etc-passwd-"},
        {"", ""},
        {"\xff\xfe...", ""},
        {"a/b\\c\n\x1b[31m%s%n", "a-b-c-31m-s-n-"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaa"},
    };
    const struct ca_log log = {.callback = NULL};

    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        clattn_device_info dev = table_device_info(1, "1");
        snprintf(dev.name, sizeof dev.name, "%s", names[n].device);
        struct ca_store *store = ca_store_create("/nowhere", &dev, &log);
        const char *path = ca_store_path(store), *name = path + strlen("/nowhere/tuning/");
        cr_assert(strncmp(path, "/nowhere/tuning/", 16) == 0, "%s", path);
        cr_expect(strncmp(name, names[n].begin, strlen(names[n].begin)) == 0, "%s", name);
        cr_expect(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name) - 5 &&
                      strlen(name) < 100,
                  "%s", name);
        cr_expect_str_eq(name + strlen(name) - 5, ".json");
        ca_store_destroy(store);
    }
    const clattn_device_info dev = table_device_info(1, "1");
    struct ca_store *store = ca_store_create(NULL, &dev, &log);
    cr_expect_str_eq(ca_store_path(store), "");
    ca_store_destroy(store);
}

/* ---- without a place to write ---------------------------------------------------------------- */

Test(store, unwritable_or_unwanted) {
    static const char *const folders[] = {"/dev/null/clattn", "/proc/clattn", NULL};

    for (size_t n = 0; n < 3; n++) {
        struct store_warnings warnings;
        struct ca_store *store = store_open(folders[n], "1", &warnings);
        struct made_entry made;
        const struct ca_entry *entry = table_entry(&made, 9, 1.0);
        const struct ca_banned banned = table_banned(entry, class, "crashed twice");
        size_t removed;
        store_put(store, class, 1, 2.0);
        store_put(store, class, 2, 1.0);
        cr_assert(ca_store_ban(store, &banned) == CLATTN_SUCCESS);
        cr_expect(store_count(store, 1) == 2, "what cannot be written lives in memory");
        cr_expect(warnings.count == (folders[n] != NULL), "%s", warnings.last);
        cr_expect(ca_store_forget(store, NULL, &removed) ==
                  (folders[n] ? CLATTN_FILE_ERROR : CLATTN_SUCCESS));
        cr_expect(removed == (folders[n] ? 0 : 3));
        cr_expect(store_count(store, 1) == (folders[n] ? 2 : 0));
        ca_store_destroy(store);
    }
}

/* Changes that could not be written at first are written later. */
Test(store, writable_again) {
    const char *path = scratch_path("tuning");

    scratch_write(path, "in the way");
    store_put(the_store, class, 1, 1.0);
    cr_expect(store_said.count == 1);
    cr_assert(ca_file_remove(CA_NO_FILE, path));
    store_put(the_store, class, 2, 1.0);
    store_again();
    cr_expect(store_count(the_store, 1) == 2);
}

/* ---- without memory -------------------------------------------------------------------------- */

Test(store, allocations_that_fail) {
    struct store_warnings warnings;
    struct made_entry made;
    const struct ca_entry *entry = table_entry(&made, 9, 1.0);
    struct ca_store *store;

    const clattn_device_info dev = table_device_info(1, "1");
    const struct ca_log log = {.callback = store_warn, .user_data = &warnings};
    for (struct faults_rounds r = {0}; faults_next(&r);) {
        faults_begin(&r);
        store = ca_store_create(scratch, &dev, &log);
        cr_assert((store == NULL) == faults_failed(&r));
        ca_store_destroy(store);
    }
    store = store_open(scratch, "1", &warnings);
    store_put(store, class, 1, 1.0);
    ca_store_destroy(store);
    for (int what = 0; what < 4; what++) {
        const long alive = faults_allocations_alive();
        for (struct faults_rounds r = {.kept = 1}; faults_next(&r);) {
            const struct ca_banned banned = table_banned(entry, class, "crashed twice");
            struct ca_table from = {NULL, 0};
            size_t changed;
            store = store_open(scratch, "1", &warnings);
            faults_begin(&r);
            const clattn_status status = what == 0   ? ca_store_put(store, class, entry, 1)
                                         : what == 1 ? ca_store_ban(store, &banned)
                                         : what == 2 ? ca_store_merge(store, &from, &changed)
                                                     : ca_store_forget(store, class, &changed);
            const int failed = faults_failed(&r);
            cr_assert(status == CLATTN_SUCCESS || (failed && status == CLATTN_OUT_OF_MEMORY) ||
                      (failed && what == 3 && status == CLATTN_FILE_ERROR));
            cr_assert(status == CLATTN_SUCCESS || warnings.errors == 1);
            cr_assert(store_count(store, 1) >= 1 || what == 3, "step %zu of %d", r.n, what);
            cr_expect(strstr(warnings.last, "damaged") == NULL, "%s", warnings.last);
            ca_store_destroy(store);
            cr_assert(faults_allocations_alive() == alive);
        }
    }
    for (struct faults_rounds r = {.kept = 1}; faults_next(&r);) {
        store = store_open(scratch, "1", &warnings);
        store_put(store, class, 1, 1.0);
        ca_store_destroy(store);
        store = store_open(scratch, "1", &warnings);
        faults_begin(&r);
        const struct ca_view view = ca_store_lock(store);
        cr_assert(view.table != NULL);
        cr_assert(view.status == (faults_failed(&r) ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS));
        ca_store_unlock(store);
        cr_assert(store_count(store, 1) >= 1, "it is there once there is memory");
        ca_store_destroy(store);
    }
}
