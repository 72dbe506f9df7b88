/* SPDX-License-Identifier: Apache-2.0 */
/* Accidents of a store: many writers lose nothing, a killed one leaves a good file, and damaged
 * files are set aside and not lost. */
#define _XOPEN_SOURCE 700 /* mkfifo */
#include "os/clock.h"
#include "os/file.h"
#include "store/store_state.h"
#include "tests/faults/faults.h"
#include "tests/support/programs/apart.h"
#include "tests/support/programs/store_folder.h"
#include "tests/support/tables.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <io.h> /* chmod */
#else
#include <sys/stat.h>
#include <unistd.h>
#endif

TestSuite(store_accidents, .init = store_begin, .fini = store_end, .timeout = 120);

static const char class[] = "fwd f32 b1 h8 q128 k128 d64";

/* ---- many writers ---------------------------------------------------------------------------- */

enum { PROCESSES = 16, THREADS = 8, ENTRIES = 40, THREAD_ENTRIES = 20, AT_ONCE = 5 };

/* Class n of its own for every five entries. */
static void class_text(size_t n, char text[64])
{
    snprintf(text, 64, "fwd f32 b1 h8 q%zu k128 d64", n + 1);
}

/* Puts `entries` of them: those of every fourth class one by one, the others five at once. */
static void put_many(struct ca_store *store, size_t writer, size_t entries)
{
    struct made_entry made[AT_ONCE];
    struct ca_entry all[AT_ONCE];
    char text[64];

    for (size_t n = 0; n < entries; n += AT_ONCE) {
        class_text((writer * entries + n) / AT_ONCE, text);
        for (size_t e = 0; e < AT_ONCE; e++)
            all[e] = *table_entry(&made[e], e, 1e-3 * (double)(1 + n + e));
        const size_t step = n / AT_ONCE % 4 == 0 ? 1 : AT_ONCE;
        for (size_t e = 0; e < AT_ONCE; e += step)
            cr_assert(ca_store_put(store, text, &all[e], step) == CLATTN_SUCCESS);
    }
}

static void expect_all(struct ca_store *store, size_t entries)
{
    const struct ca_view view = ca_store_lock(store);
    char text[64];

    cr_assert(view.own && view.own->num_classes == entries / AT_ONCE);
    for (size_t n = 0; n < entries / AT_ONCE; n++) {
        class_text(n, text);
        const struct ca_class *found = ca_device_table_class(view.own, text);
        cr_assert(found && found->num_entries == AT_ONCE, "%s", text);
    }
    ca_store_unlock(store);
}

static int put_many_apart(const struct apart_site *site)
{
    struct store_warnings warnings;
    struct ca_store *store = store_open(scratch, "1", &warnings);

    put_many(store, site->number, ENTRIES);
    ca_store_destroy(store);
    return warnings.count > 0;
}
APART(put_many_apart)

Test(store_accidents, many_processes_lose_nothing) {
    struct apart writers[PROCESSES];

    for (size_t n = 0; n < PROCESSES; n++)
        writers[n] = apart_start(put_many_apart, n);
    for (size_t n = 0; n < PROCESSES; n++)
        cr_expect(apart_end(&writers[n]) == 0, "writer %zu", n);
    expect_all(the_store, PROCESSES * ENTRIES);
    cr_expect(store_said.count == 0, "%s", store_said.last);
    cr_expect(store_files() == 2, "the store and its lock");
}

struct thread {
    pthread_t id;
    struct ca_store *store;
    size_t writer;
};

static void *run_thread(void *thread)
{
    const struct thread *t = thread;

    put_many(t->store, t->writer, THREAD_ENTRIES);
    return NULL;
}

/* Half of the threads use one store, half another one of the same process. */
Test(store_accidents, many_threads_lose_nothing) {
    struct store_warnings warnings[2];
    struct thread threads[THREADS];
    struct ca_store *stores[2];

    for (size_t n = 0; n < 2; n++)
        stores[n] = store_open(scratch, "1", &warnings[n]);
    for (size_t n = 0; n < THREADS; n++) {
        threads[n].store = stores[n % 2];
        threads[n].writer = n;
        cr_assert(pthread_create(&threads[n].id, NULL, run_thread, &threads[n]) == 0);
    }
    for (size_t n = 0; n < THREADS; n++)
        cr_assert(pthread_join(threads[n].id, NULL) == 0);
    for (size_t n = 0; n < 2; n++) {
        expect_all(stores[n], THREADS * THREAD_ENTRIES);
        cr_expect(warnings[n].count == 0);
        ca_store_destroy(stores[n]);
    }
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

static void nap(long microseconds)
{
    ca_nap(1e-6 * (double)microseconds);
}

/* Puts one class after the other, from a number on, and says a byte for each that was put. */
static int put_for_ever(const struct apart_site *site)
{
    struct store_warnings warnings;
    struct ca_store *store = store_open(scratch, "1", &warnings);
    char text[64];

    for (size_t n = site->number;; n++) {
        class_text(n % 200, text);
        store_put(store, text, n / 200 % 5, 1.0);
        if (!ca_pipe_write(site->says, "", 1))
            return 1;
    }
}
APART(put_for_ever)

Test(store_accidents, kill_9_leaves_a_good_file) {
    struct rng rng = rng_seed(1);
    size_t done = 0, torn = 0;

    for (int run = 0; run < 60; run++) {
        const struct apart writer = apart_start(put_for_ever, done);
        for (int n = 0; run % 2 && n < 3; n++)
            done += apart_said(&writer);
        if (run % 2)
            nap((long)rng_below(&rng, 20000));
        else /* in the middle of writing, most of the time */
            for (int n = 0; n < 1000 && store_files() < 3; n++)
                nap(10);
        apart_kill(&writer);
        while (apart_said(&writer))
            done++;
        apart_close(&writer);
        const size_t found = store_count(the_store, 1);
        cr_assert(found == done || found == done + 1 || done > 1000, "run %d: %zu of %zu entries",
                  run, found, done);
        torn += store_files() > 2;
    }
    cr_expect(store_said.count == 0, "%s", store_said.last);
    cr_expect(done > 60, "too few were put for this to be a test");
    cr_expect(torn > 0, "no writer was killed while it wrote");
    store_put(the_store, class, 1, 1.0);
    cr_expect(store_files() == 2, "what killed writers leave behind is removed");
}

/* Only what is a writer's temporary file of this device is removed. */
Test(store_accidents, other_files_are_left_alone) {
    static const struct {
        const char *ending;
        int stays;
    } files[] = {
        {".tmp-aB3xyz", 0}, {".tmp-aB3xyzz", 1}, {".backup", 1}, {".damaged-1", 1}, {"~", 1}};
    char path[600];

    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        snprintf(path, sizeof path, "%s%s", ca_store_path(the_store), files[n].ending);
        scratch_write(path, "x");
    }
    snprintf(path, sizeof path, "%s/tuning/another-device-00000000-00000000.json.tmp-aB3xyz",
             scratch);
    scratch_write(path, "x");
    cr_expect(store_count(the_store, 0) == 0 && store_files() == 6, "readers remove nothing");
    store_put(the_store, class, 1, 1.0);
    cr_expect(scratch_has(path));
    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        snprintf(path, sizeof path, "%s%s", ca_store_path(the_store), files[n].ending);
        cr_expect(scratch_has(path) == files[n].stays, "%s", path);
    }
    cr_expect(store_said.count == 0);
}

/* A lock file of a process that is long gone does not lock. */
static int lock_and_die(const struct apart_site *site)
{
    struct store_warnings warnings;
    struct ca_store *store = store_open(scratch, "1", &warnings);

    (void)site;
    store_put(store, class, 1, 1.0);
    store_files_lock();
    apart_die();
    return 1;
}
APART(lock_and_die)

Test(store_accidents, old_lock_files_do_not_lock) {
    const struct apart holder = apart_start(lock_and_die, 0);

    cr_assert(apart_end(&holder) == -1);
    store_put(the_store, class, 2, 1.0);
    cr_expect(store_count(the_store, 1) == 2);
}

/* ---- locks that are not to be had ------------------------------------------------------------- */

static int lock_and_wait(const struct apart_site *site)
{
    char byte;

    store_files_lock();
    if (ca_pipe_write(site->says, "", 1))
        ca_pipe_read(site->hears, &byte, 1, -1);
    return 1;
}
APART(lock_and_wait)

/* A process that holds the lock until it is killed. */
static struct apart hold_lock(void)
{
    const struct apart holder = apart_start(lock_and_wait, 0);

    cr_assert(apart_said(&holder));
    return holder;
}

static void end_holder(const struct apart *holder)
{
    apart_kill(holder);
    apart_close(holder);
}

/* A writer waits for seconds, says whose lock it is, and loses nothing. */
Test(store_accidents, a_lock_that_is_held_is_waited_for_with_an_end) {
    struct store_warnings others;
    size_t removed;
    char whose[SCRATCH_BYTES + 64];

    struct ca_store *other = store_open(scratch, "1", &others);
    cr_expect(the_store->waits == CA_STORE_WAITS);
    the_store->waits = 0.3;
    store_put(the_store, class, 1, 1.0);
    const struct apart holder = hold_lock();
    const double begin = ca_stopwatch_now();
    store_put(the_store, class, 2, 1.0);
    cr_expect(ca_stopwatch_now() - begin >= 0.3, "nobody waited");
#if defined(_WIN32) /* which does not say who holds a lock */
    snprintf(whose, sizeof whose, "somebody else holds its lock %s", scratch);
#else
    snprintf(whose, sizeof whose, "process %ld holds its lock %s", holder.child.number, scratch);
#endif
    cr_expect(store_said.count == 1 && strstr(store_said.last, "for more than 0.3 seconds"), "%s",
              store_said.last);
    if (scratch_has("/proc/locks"))
        cr_expect(strstr(store_said.last, whose), "%s without %s", store_said.last, whose);
    the_store->waits = 1e9; /* who waited in vain does not wait again */
    store_put(the_store, class, 3, 1.0);
    cr_expect(ca_store_forget(the_store, class, &removed) == CLATTN_FILE_ERROR && removed == 0);
    cr_expect(store_said.count == 1 && store_said.errors == 1);
    cr_expect(store_count(the_store, 1) == 3 && store_count(other, 1) == 1);
    cr_expect(!ca_store_save(the_store));
    end_holder(&holder);
    cr_expect(ca_store_save(the_store) && store_count(other, 1) == 3, "what was found is lost");
    ca_store_destroy(other);
}

/* Changes for which nobody waited are written in the end. */
Test(store_accidents, the_end_of_a_store_writes_what_could_not_be) {
    struct store_warnings others;

    struct ca_store *other = store_open(scratch, "1", &others);
    the_store->waits = 0.0;
    store_put(the_store, class, 1, 1.0);
    const struct apart holder = hold_lock();
    store_put(the_store, class, 2, 1.0);
    end_holder(&holder);
    store_again();
    cr_expect(store_count(other, 1) == 2);
    ca_store_destroy(other);
}

/* A reader never waits: a damaged file is ignored until somebody writes. */
Test(store_accidents, readers_wait_for_no_lock) {
    store_put(the_store, class, 1, 1.0);
    const struct apart holder = hold_lock();
    scratch_write(ca_store_path(the_store), "{");
    the_store->waits = 1e9;
    cr_expect(store_count(the_store, 1) == 0 && store_count(the_store, 1) == 0);
    cr_expect(store_said.count == 1 && strstr(store_said.last, "is ignored"), "%s",
              store_said.last);
    end_holder(&holder);
    store_put(the_store, class, 2, 1.0);
    cr_expect(store_count(the_store, 1) == 1);
    cr_expect(store_said.count == 2 && strstr(store_said.last, "is set aside as"), "%s",
              store_said.last);
}

static void *put_and_wait(void *waiting)
{
    atomic_store((atomic_int *)waiting, 1);
    store_put(the_store, class, 2, 1.0);
    atomic_store((atomic_int *)waiting, 0);
    return NULL;
}

/* Not even for a thread of their own process that waits for it. */
Test(store_accidents, readers_wait_for_no_writer_that_waits) {
    atomic_int waiting = 0;
    pthread_t thread;

    store_put(the_store, class, 1, 1.0);
    const struct apart holder = hold_lock();
    cr_assert(pthread_create(&thread, NULL, put_and_wait, &waiting) == 0);
    while (!atomic_load(&waiting))
        nap(100);
    nap(50000);
    cr_expect(store_count(the_store, 1) == 1 && atomic_load(&waiting));
    end_holder(&holder);
    cr_assert(pthread_join(thread, NULL) == 0);
    cr_expect(store_count(the_store, 1) == 2 && store_said.count == 0, "%s", store_said.last);
}

/* As on NFS and Lustre: a file stands in for the lock, which is said once, and writers lose nothing by it. */
static int put_without_locks(const struct apart_site *site)
{
    struct store_warnings warnings;
    char words[128];

    faults_no_locks(ENOLCK);
    snprintf(words, sizeof words, "has no locks (%s)", strerror(ENOLCK));
    struct ca_store *store = store_open(scratch, "1", &warnings);
    put_many(store, site->number, 4 * AT_ONCE);
    ca_store_destroy(store);
    return warnings.count != 1 || !strstr(warnings.last, words);
}
APART(put_without_locks)

Test(store_accidents, file_systems_without_locks) {
    struct apart writers[4];

    for (size_t n = 0; n < 4; n++)
        writers[n] = apart_start(put_without_locks, n);
    for (size_t n = 0; n < 4; n++)
        cr_expect(apart_end(&writers[n]) == 0, "writer %zu", n);
    expect_all(the_store, 4 * 4 * AT_ONCE);
    cr_expect(store_files() == 2, "the store and its lock");
}

/* One that stays the same all the time is of a process that is gone; but for that, it holds. */
Test(store_accidents, an_old_file_in_place_of_a_lock) {
    char path[600];

    faults_no_locks(ENOSYS);
    store_put(the_store, class, 1, 1.0);
    snprintf(path, sizeof path, "%s.held", the_store->lock_path);
    scratch_write(path, "4711\n");
    cr_assert(chmod(path, 0600) == 0);
    the_store->waits = 0.0;
    store_put(the_store, class, 2, 1.0);
    cr_expect(store_said.count == 2 && strstr(store_said.last, "process 4711 holds its lock"), "%s",
              store_said.last);
    atomic_store(&the_store->had_to_wait, 0);
    the_store->waits = 0.1;
    store_put(the_store, class, 3, 1.0);
    cr_expect(!scratch_has(path) && ca_store_save(the_store) && store_count(the_store, 1) == 3);
    faults_no_locks(0);
}

/* The target of a link in the lock's place is not made. */
Test(store_accidents, a_lock_that_is_a_link) {
    cr_assert(ca_folder_make(scratch_path("tuning")));
    if (!scratch_link(scratch_path("precious"), the_store->lock_path))
        cr_skip_test("this system, or this user, makes no links");
    store_put(the_store, class, 1, 1.0);
    cr_expect(!scratch_has(scratch_path("precious")) && store_count(the_store, 1) == 1);
    cr_expect(store_said.count == 1 && strstr(store_said.last, "it is a link"), "%s",
              store_said.last);
}

/* The file's and its folder's contents are on the disk before anybody is told that they were written. */
Test(store_accidents, a_power_cut_loses_nothing) {
    const long before = faults_syncs();
    store_put(the_store, class, 1, 1.0);
    cr_expect(faults_syncs() == before + 2);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static void damaged(const char *name, const char *bytes, size_t size)
{
    char path[600];
    size_t kept;

    for (int n = 1; n <= 2; n++) { /* each under a name of its own */
        scratch_write_bytes(ca_store_path(the_store), bytes, size);
        cr_expect(store_count(the_store, 0) == 0);
        cr_expect(store_said.count == (size_t)n && strstr(store_said.last, "damaged"), "%s: %s",
                  name, store_said.last);
        snprintf(path, sizeof path, "%s.damaged-%d", ca_store_path(the_store), n);
        cr_expect(strstr(store_said.last, path) != NULL, "%s: %s", name, store_said.last);
        char *found = scratch_read(path, &kept);
        cr_expect(kept == size && memcmp(found, bytes, size) == 0, "%s was lost", name);
        free(found);
        store_put(the_store, class, (size_t)n, 1.0);
        cr_expect(store_count(the_store, 0) == 1);
    }
    cr_expect(store_said.count == 2 && store_said.errors == 0);

    /* a store that is opened anew sees the new file and says no more about the old one */
    store_again();
    cr_expect(store_count(the_store, 1) == 1 && store_said.count == 0);
}

Test(store_accidents, damaged_files_are_set_aside) {
    struct ca_listing *listing = ca_listing_open(ca_folder_open(CLATTN_TEST_DATA "/store", true));
    const char *name;
    char path[600];
    size_t files = 0;

    cr_assert(listing != NULL);
    while ((name = ca_listing_next(listing)) != NULL) {
        size_t size;
        if (name[0] == '.' || strcmp(name, "README.md") == 0)
            continue;
        snprintf(path, sizeof path, CLATTN_TEST_DATA "/store/%s", name);
        char *bytes = scratch_read(path, &size);
        damaged(name, bytes, size);
        free(bytes);
        store_end();
        store_begin();
        files++;
    }
    ca_listing_close(listing);
    cr_expect(files > 50);
}

/* A damaged file of another driver, and one that a process finds which wants to write. */
Test(store_accidents, damage_is_found_by_every_door) {
    struct store_warnings warnings;

    struct ca_store *store = store_open(scratch, "2", &warnings);
    store_put(the_store, class, 1, 1.0);
    scratch_write(ca_store_path(the_store), "{");
    store_put(store, class, 2, 1.0);
    cr_expect(warnings.count == 1 && strstr(warnings.last, ca_store_path(the_store)));
    scratch_write(ca_store_path(store), "");
    store_put(store, class, 3, 1.0);
    cr_expect(warnings.count == 2 && store_count(store, 0) == 1);
    cr_expect(store_files() == 4, "a store, a lock, and two that are damaged");
    ca_store_destroy(store);
}

/* A folder, a pipe that nobody writes to, a file that is larger than memory may be. */
Test(store_accidents, strange_files_are_set_aside) {
    store_put(the_store, class, 1, 1.0);
    for (int n = 0; n < 3; n++) {
        const char *path = ca_store_path(the_store);
        cr_assert(ca_file_remove(CA_NO_FILE, path));
        if (n == 0)
            cr_assert(ca_folder_make(path));
        if (n == 1)
#if defined(_WIN32) /* which has no pipes in folders */
            scratch_write(path, "{");
#else
            cr_assert(mkfifo(path, 0600) == 0);
#endif
        if (n == 2)
            scratch_write_sparse(path, "{", 1ull << 40);
        store_put(the_store, class, 1, 1.0);
        cr_expect(store_said.count == (size_t)n + 1 && store_count(the_store, 1) == 1, "%s",
                  store_said.last);
    }
}

/* Keeps the store's file from being renamed, or no longer: by the folder's mode, or by holding it, which Windows takes for
 * that. */
static void fix_in_place(bool fixed)
{
#if defined(_WIN32)
    static FILE *holder;

    if (!fixed)
        fclose(holder);
    else
        cr_assert((holder = fopen(ca_store_path(the_store), "rb")) != NULL);
#else
    cr_assert(chmod(scratch_path("tuning"), fixed ? 0500 : 0700) == 0);
#endif
}

static bool may_write_everywhere(void)
{
#if defined(_WIN32)
    return false;
#else
    return geteuid() == 0;
#endif
}

/* A damaged file that cannot be set aside is left alone. */
Test(store_accidents, damage_that_cannot_be_set_aside) {
    store_put(the_store, class, 1, 1.0);
    scratch_write(ca_store_path(the_store), "junk");
    fix_in_place(true);
    store_put(the_store, class, 2, 1.0);
    store_put(the_store, class, 3, 1.0);
    cr_expect(store_count(the_store, 1) == 2);
    if (!may_write_everywhere()) {
        cr_expect(store_said.count == 2, "%zu: %s", store_said.count, store_said.last);
        cr_expect(scratch_bytes(ca_store_path(the_store)) == 4);
    }
    fix_in_place(false);
}
