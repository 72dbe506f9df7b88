/* The store on disk: many writers lose nothing, a killed one leaves a good file, damaged files are
 * set aside, and what cannot be written lives in memory. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, fork, kill */
#include "faults.h"
#include "store.h"
#include "store_folder.h"
#include "tables.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(store, .timeout = 120);

static const char class[] = "fwd f32 b1 h8 q128 k128 d64";

static struct ca_store *open_store(const char *folder, const char *driver,
                                   struct store_warnings *warnings)
{
    const clattn_device_info dev = table_device_info(1, driver);
    const struct ca_log log = {store_warn, warnings};
    struct ca_store *store;

    memset(warnings, 0, sizeof *warnings);
    store = ca_store_create(folder, &dev, &log);
    cr_assert(store != NULL);
    return store;
}

static void put(struct ca_store *store, const char *problem_class, size_t config, double seconds)
{
    struct made_entry made;

    cr_assert(ca_store_put(store, problem_class, table_entry(&made, config, seconds), 1) ==
              CLATTN_SUCCESS);
}

/* Entries that the store knows, of its own driver or of all. */
static size_t count(struct ca_store *store, int own)
{
    const struct ca_view view = ca_store_lock(store);
    size_t entries = 0;

    for (size_t d = 0; d < view.table->num_devices; d++)
        for (size_t n = 0; n < view.table->devices[d].num_classes; n++)
            if (!own || &view.table->devices[d] == view.own)
                entries += view.table->devices[d].classes[n].num_entries;
    ca_store_unlock(store);
    return entries;
}

/* The tunables of a class's entries, in their order: "A=1 B=2, ...". */
static void order(struct ca_store *store, const char *problem_class, char text[512])
{
    const struct ca_view view = ca_store_lock(store);
    const struct ca_class *found = ca_device_table_class(view.own, problem_class);

    text[0] = '\0';
    for (size_t n = 0; n < found->num_entries; n++)
        snprintf(text + strlen(text), 512 - strlen(text), "%s%s", n ? ", " : "",
                 found->entries[n].tunables);
    ca_store_unlock(store);
}

/* ---- keeping ---------------------------------------------------------------------------------- */

Test(store, keeps_what_is_put) {
    char folder[STORE_FOLDER], text[512];
    struct store_warnings warnings;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    cr_expect(access(ca_store_path(store), F_OK) != 0, "nothing is written before it must");
    cr_expect(count(store, 0) == 0);
    for (size_t n = 0; n < 7; n++)
        put(store, class, n, 1e-3 * (double)(8 - n));
    order(store, class, text);
    cr_expect_str_eq(text, "A=6 B=2, A=5 B=2, A=4 B=2, A=3 B=2, A=2 B=2");
    put(store, class, 4, 1e-5); /* measured again */
    order(store, class, text);
    cr_expect_str_eq(text, "A=4 B=2, A=6 B=2, A=5 B=2, A=3 B=2, A=2 B=2");
    ca_store_destroy(store);

    store = open_store(folder, "1", &warnings);
    order(store, class, text);
    cr_expect_str_eq(text, "A=4 B=2, A=6 B=2, A=5 B=2, A=3 B=2, A=2 B=2");
    ca_store_destroy(store);
    cr_expect(warnings.count == 0, "%s", warnings.last);
    store_folder_remove(folder);
}

/* What was measured with another kernel source goes first, however fast it was. */
Test(store, stale_entries_are_cut_first) {
    char folder[STORE_FOLDER], text[512];
    struct store_warnings warnings;
    struct made_entry made;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (size_t n = 0; n < 5; n++) {
        const struct ca_entry *entry = table_entry(&made, n, 1e-9 * (double)(n + 1));
        made.source[0] = made.source[0] == '0' ? '1' : '0';
        cr_assert(ca_store_put(store, class, entry, 1) == CLATTN_SUCCESS);
    }
    put(store, class, 10, 1.0);
    put(store, class, 11, 2.0);
    order(store, class, text);
    cr_expect_str_eq(text, "A=0 B=2, A=1 B=2, A=2 B=2, A=10 B=2, A=11 B=2");
    for (size_t n = 12; n < 16; n++)
        put(store, class, n, 3.0);
    order(store, class, text);
    cr_expect_str_eq(text, "A=10 B=2, A=11 B=2, A=12 B=2, A=13 B=2, A=14 B=2");
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* An entry that claims to be fast but was found to be wrong must not keep others out. */
Test(store, banned_entries_are_cut_before_all_others) {
    char folder[STORE_FOLDER], text[512];
    struct store_warnings warnings;
    struct made_entry made;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (size_t n = 0; n < 5; n++) {
        const struct ca_entry *entry = table_entry(&made, n, 1e-9);
        store_unfused_tunables(n, made.tunables, sizeof made.tunables);
        const struct ca_banned banned = {(char *)class, entry->family,      entry->tunables,
                                         entry->source, entry->declaration, (char *)"wrong",
                                         entry->when};
        cr_assert(ca_store_put(store, class, entry, 1) == CLATTN_SUCCESS);
        if (n < 4)
            cr_assert(ca_store_ban(store, &banned) == CLATTN_SUCCESS);
    }
    char sound[512];
    snprintf(sound, sizeof sound, "%s, A=10 B=2, A=11 B=2, A=12 B=2, A=13 B=2", made.tunables);
    for (size_t n = 10; n < 14; n++)
        put(store, class, n, 1e-3 * (double)n);
    order(store, class, text);
    cr_expect_str_eq(text, sound);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

Test(store, a_ban_keeps_its_first_reason) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings;
    struct made_entry made;
    const struct ca_entry *entry = table_entry(&made, 1, 1.0);
    char first[] = "it hung\n\x1b[31m", second[] = "a", when[] = "2020-01-01T00:00:00Z";
    struct ca_banned banned = {(char *)class,      entry->family, entry->tunables, entry->source,
                               entry->declaration, first,         entry->when};

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (int n = 0; n < 2; n++) {
        cr_assert(ca_store_ban(store, &banned) == CLATTN_SUCCESS);
        banned.reason = second;
        banned.when = when;
    }
    const struct ca_view view = ca_store_lock(store);
    cr_assert(view.own && view.own->num_banned == 1);
    cr_expect_str_eq(view.own->banned[0].reason, "it hung??[31m");
    ca_store_unlock(store);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* What a file could not be read with is not written. */
Test(store, takes_nothing_that_it_could_not_read) {
    char folder[STORE_FOLDER], wrong[] = "../x";
    struct store_warnings warnings;
    struct made_entry made;
    const struct ca_entry good = *table_entry(&made, 1, 1.0);
    double many[1000];

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (int n = 0; n < 6; n++) {
        struct ca_entry entry = good;
        entry.seconds = n == 0 ? 0.0 : entry.seconds;
        entry.num_samples = n == 1 ? 0 : entry.num_samples;
        entry.error = n == 2 ? -1.0 : entry.error;
        entry.tunables = n == 3 ? wrong : entry.tunables;
        entry.policy = n == 4 ? (char *)"a\nb" : entry.policy;
        cr_expect(ca_store_put(store, n == 5 ? wrong : class, &entry, 1) ==
                  CLATTN_INVALID_ARGUMENT);
    }
    const struct ca_banned banned = {(char *)class,    wrong,       good.tunables, good.source,
                                     good.declaration, good.policy, good.when};
    cr_expect(ca_store_ban(store, &banned) == CLATTN_INVALID_ARGUMENT);
    cr_expect(warnings.errors == 7);
    cr_expect(access(ca_store_path(store), F_OK) != 0);

    /* more samples than are kept are thinned */
    struct ca_entry entry = good;
    for (size_t n = 0; n < 1000; n++)
        many[n] = (double)(n + 1);
    entry.samples = many;
    entry.num_samples = 1000;
    cr_assert(ca_store_put(store, class, &entry, 1) == CLATTN_SUCCESS);
    const struct ca_view view = ca_store_lock(store);
    const struct ca_entry *kept = &ca_device_table_class(view.own, class)->entries[0];
    cr_expect(kept->num_samples == CA_TABLE_SAMPLES && kept->samples[0] == 1.0);
    cr_expect(kept->samples[CA_TABLE_SAMPLES - 1] > 980.0);
    ca_store_unlock(store);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* ---- other drivers, other stores of this process ---------------------------------------------- */

Test(store, other_drivers_results_are_seen) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings, others;

    store_folder_make(folder);
    struct ca_store *old = open_store(folder, "1", &warnings);
    put(old, class, 1, 1.0);
    struct ca_store *new = open_store(folder, "2", &others);
    cr_expect_str_neq(ca_store_path(old), ca_store_path(new));
    cr_expect(count(new, 0) == 1 && count(new, 1) == 0);
    put(new, class, 2, 1.0);
    cr_expect(count(new, 0) == 2 && count(new, 1) == 1);
    cr_expect(count(old, 0) == 2 && count(old, 1) == 1, "a file that came later is seen");

    size_t removed;
    cr_assert(ca_store_forget(new, class, &removed) == CLATTN_SUCCESS && removed == 2);
    cr_expect(count(old, 0) == 0 && count(new, 0) == 0);
    cr_assert(ca_store_forget(new, NULL, &removed) == CLATTN_SUCCESS && removed == 0);
    ca_store_destroy(old);
    ca_store_destroy(new);
    cr_expect(warnings.count == 0 && others.count == 0);
    store_folder_remove(folder);
}

Test(store, two_stores_of_one_process_see_each_other) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings;

    store_folder_make(folder);
    struct ca_store *a = open_store(folder, "1", &warnings);
    struct ca_store *b = open_store(folder, "1", &warnings);
    for (size_t n = 0; n < 4; n++) {
        put(n % 2 ? a : b, class, n, 1.0);
        cr_expect(count(a, 1) == n + 1 && count(b, 1) == n + 1);
    }
    cr_expect(unlink(ca_store_path(a)) == 0);
    cr_expect(count(a, 0) == 0, "a file that was removed is forgotten");
    ca_store_destroy(a);
    ca_store_destroy(b);
    store_folder_remove(folder);
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
    const struct ca_log log = {NULL, NULL};

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

/* ---- many writers ----------------------------------------------------------------------------- */

enum { PROCESSES = 16, THREADS = 8, ENTRIES = 100, THREAD_ENTRIES = 20, AT_ONCE = 5 };

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

Test(store, many_processes_lose_nothing) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings;
    pid_t children[PROCESSES];

    store_folder_make(folder);
    for (size_t n = 0; n < PROCESSES; n++) {
        children[n] = fork();
        cr_assert(children[n] >= 0);
        if (children[n] == 0) {
            struct ca_store *store = open_store(folder, "1", &warnings);
            put_many(store, n, ENTRIES);
            ca_store_destroy(store);
            _exit(warnings.count > 0);
        }
    }
    for (size_t n = 0; n < PROCESSES; n++) {
        int status;
        cr_assert(waitpid(children[n], &status, 0) == children[n]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    struct ca_store *store = open_store(folder, "1", &warnings);
    expect_all(store, PROCESSES * ENTRIES);
    cr_expect(warnings.count == 0, "%s", warnings.last);
    cr_expect(store_folder_files(folder) == 2, "the store and its lock");
    ca_store_destroy(store);
    store_folder_remove(folder);
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
Test(store, many_threads_lose_nothing) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings[2];
    struct thread threads[THREADS];
    struct ca_store *stores[2];

    store_folder_make(folder);
    for (size_t n = 0; n < 2; n++)
        stores[n] = open_store(folder, "1", &warnings[n]);
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
    store_folder_remove(folder);
}

/* ---- kill -9 ---------------------------------------------------------------------------------- */

static void nap(long microseconds)
{
    nanosleep(&(struct timespec){0, 1000 * microseconds}, NULL);
}

/* Puts one class after the other, from number n on, and writes a byte for each that was put. */
static void put_for_ever(const char *folder, size_t n, int done)
{
    struct store_warnings warnings;
    struct ca_store *store = open_store(folder, "1", &warnings);
    char text[64];

    for (;; n++) {
        class_text(n % 200, text);
        put(store, text, n / 200 % 5, 1.0);
        if (write(done, "", 1) != 1)
            _exit(1);
    }
}

Test(store, kill_9_leaves_a_good_file) {
    char folder[STORE_FOLDER], byte;
    struct store_warnings warnings;
    struct rng rng = rng_seed(1);
    size_t done = 0, torn = 0;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (int run = 0; run < 60; run++) {
        int ends[2];
        cr_assert(pipe(ends) == 0);
        const pid_t child = fork();
        cr_assert(child >= 0);
        if (child == 0)
            put_for_ever(folder, done, ends[1]);
        close(ends[1]);
        if (run % 2)
            nap(1000 + (long)rng_below(&rng, 20000));
        else /* in the middle of writing, most of the time */
            for (int n = 0; n < 1000 && store_folder_files(folder) < 3; n++)
                nap(10);
        cr_assert(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        while (read(ends[0], &byte, 1) == 1)
            done++;
        close(ends[0]);
        const size_t found = count(store, 1);
        cr_assert(found == done || found == done + 1 || done > 1000, "run %d: %zu of %zu entries",
                  run, found, done);
        torn += store_folder_files(folder) > 2;
    }
    cr_expect(warnings.count == 0, "%s", warnings.last);
    cr_expect(done > 60, "too few were put for this to be a test");
    cr_expect(torn > 0, "no writer was killed while it wrote");
    put(store, class, 1, 1.0);
    cr_expect(store_folder_files(folder) == 2, "what killed writers leave behind is removed");
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* Only what is a writer's temporary file of this device is removed. */
Test(store, other_files_are_left_alone) {
    static const struct {
        const char *ending;
        int stays;
    } files[] = {
        {".tmp-aB3xyz", 0}, {".tmp-aB3xyzz", 1}, {".backup", 1}, {".damaged-1", 1}, {"~", 1}};
    char folder[STORE_FOLDER], path[600];
    struct store_warnings warnings;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        snprintf(path, sizeof path, "%s%s", ca_store_path(store), files[n].ending);
        store_write(path, "x", 1);
    }
    snprintf(path, sizeof path, "%s/tuning/another-device-00000000-00000000.json.tmp-aB3xyz",
             folder);
    store_write(path, "x", 1);
    cr_expect(count(store, 0) == 0 && store_folder_files(folder) == 6, "readers remove nothing");
    put(store, class, 1, 1.0);
    cr_expect(access(path, F_OK) == 0);
    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        snprintf(path, sizeof path, "%s%s", ca_store_path(store), files[n].ending);
        cr_expect((access(path, F_OK) == 0) == files[n].stays, "%s", path);
    }
    cr_expect(warnings.count == 0);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* A lock file of a process that is long gone does not lock. */
Test(store, old_lock_files_do_not_lock) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings;

    store_folder_make(folder);
    const pid_t child = fork();
    if (child == 0) {
        struct ca_store *store = open_store(folder, "1", &warnings);
        put(store, class, 1, 1.0);
        store_folder_lock(folder);
        kill(getpid(), SIGKILL);
    }
    cr_assert(child > 0 && waitpid(child, NULL, 0) == child);
    struct ca_store *store = open_store(folder, "1", &warnings);
    put(store, class, 2, 1.0);
    cr_expect(count(store, 1) == 2);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* ---- damaged files ---------------------------------------------------------------------------- */

static void damaged(const char *name, const char *bytes, size_t size)
{
    char folder[STORE_FOLDER], path[600], found[100000];
    struct store_warnings warnings;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    for (int n = 1; n <= 2; n++) { /* each under a name of its own */
        store_write(ca_store_path(store), bytes, size);
        cr_expect(count(store, 0) == 0);
        cr_expect(warnings.count == (size_t)n && strstr(warnings.last, "damaged"), "%s: %s", name,
                  warnings.last);
        snprintf(path, sizeof path, "%s.damaged-%d", ca_store_path(store), n);
        cr_expect(strstr(warnings.last, path) != NULL, "%s: %s", name, warnings.last);
        cr_expect(store_read(path, found, sizeof found) == size && memcmp(found, bytes, size) == 0,
                  "%s was lost", name);
        put(store, class, (size_t)n, 1.0);
        cr_expect(count(store, 0) == 1);
    }
    cr_expect(warnings.count == 2 && warnings.errors == 0);
    ca_store_destroy(store);

    /* a store that is opened anew sees the new file and says no more about the old one */
    store = open_store(folder, "1", &warnings);
    cr_expect(count(store, 1) == 1 && warnings.count == 0);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

Test(store, damaged_files_are_set_aside) {
    DIR *directory = opendir(CLATTN_TEST_DATA "/store");
    struct dirent *entry;
    size_t files = 0;

    cr_assert(directory != NULL);
    while ((entry = readdir(directory)) != NULL) {
        static char bytes[100000];
        char path[600];
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "README.md") == 0)
            continue;
        snprintf(path, sizeof path, CLATTN_TEST_DATA "/store/%s", entry->d_name);
        damaged(entry->d_name, bytes, store_read(path, bytes, sizeof bytes));
        files++;
    }
    closedir(directory);
    cr_expect(files > 50);
}

/* Of another driver, or as another writer finds it. */
Test(store, damage_is_found_by_every_door) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings, others;

    store_folder_make(folder);
    struct ca_store *old = open_store(folder, "1", &others);
    struct ca_store *store = open_store(folder, "2", &warnings);
    put(old, class, 1, 1.0);
    store_write(ca_store_path(old), "{", 1);
    put(store, class, 2, 1.0);
    cr_expect(warnings.count == 1 && strstr(warnings.last, ca_store_path(old)));
    store_write(ca_store_path(store), "", 0);
    put(store, class, 3, 1.0);
    cr_expect(warnings.count == 2 && count(store, 0) == 1);
    cr_expect(store_folder_files(folder) == 4, "a store, a lock, and two that are damaged");
    ca_store_destroy(old);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* A folder, a pipe that nobody writes to, a file that is larger than memory may be. */
Test(store, strange_files_are_set_aside) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    put(store, class, 1, 1.0);
    for (int n = 0; n < 3; n++) {
        const char *path = ca_store_path(store);
        cr_assert(unlink(path) == 0);
        if (n == 0)
            cr_assert(mkdir(path, 0700) == 0);
        if (n == 1)
            cr_assert(mkfifo(path, 0600) == 0);
        if (n == 2) {
            store_write(path, "{", 1);
            cr_assert(truncate(path, (off_t)1 << 40) == 0);
        }
        put(store, class, 1, 1.0);
        cr_expect(warnings.count == (size_t)n + 1 && count(store, 1) == 1, "%s", warnings.last);
    }
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* A damaged file that cannot be set aside is left alone. */
Test(store, damage_that_cannot_be_set_aside) {
    char folder[STORE_FOLDER], path[600];
    struct store_warnings warnings;

    store_folder_make(folder);
    struct ca_store *store = open_store(folder, "1", &warnings);
    put(store, class, 1, 1.0);
    store_write(ca_store_path(store), "junk", 4);
    snprintf(path, sizeof path, "%s/tuning", folder);
    cr_assert(chmod(path, 0500) == 0);
    put(store, class, 2, 1.0);
    put(store, class, 3, 1.0);
    cr_expect(count(store, 1) == 2);
    if (geteuid() != 0) { /* who may write everywhere */
        char found[8];
        cr_expect(warnings.count == 2, "%zu: %s", warnings.count, warnings.last);
        cr_expect(store_read(ca_store_path(store), found, sizeof found) == 4);
    }
    cr_assert(chmod(path, 0700) == 0);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* ---- without a place to write ----------------------------------------------------------------- */

Test(store, unwritable_or_unwanted) {
    static const char *const folders[] = {"/dev/null/clattn", "/proc/clattn", NULL};

    for (size_t n = 0; n < 3; n++) {
        struct store_warnings warnings;
        struct ca_store *store = open_store(folders[n], "1", &warnings);
        struct made_entry made;
        const struct ca_entry *entry = table_entry(&made, 9, 1.0);
        const struct ca_banned banned = {(char *)class, entry->family,      entry->tunables,
                                         entry->source, entry->declaration, entry->policy,
                                         entry->when};
        size_t removed;
        put(store, class, 1, 2.0);
        put(store, class, 2, 1.0);
        cr_assert(ca_store_ban(store, &banned) == CLATTN_SUCCESS);
        cr_expect(count(store, 1) == 2, "what cannot be written lives in memory");
        cr_expect(warnings.count == (folders[n] != NULL), "%s", warnings.last);
        cr_expect(ca_store_forget(store, NULL, &removed) ==
                  (folders[n] ? CLATTN_FILE_ERROR : CLATTN_SUCCESS));
        cr_expect(removed == (folders[n] ? 0 : 3));
        cr_expect(count(store, 1) == (folders[n] ? 2 : 0));
        ca_store_destroy(store);
    }
}

/* What could not be written at first is written later. */
Test(store, writable_again) {
    char folder[STORE_FOLDER], path[600];
    struct store_warnings warnings;

    store_folder_make(folder);
    snprintf(path, sizeof path, "%s/tuning", folder);
    store_write(path, "in the way", 10);
    struct ca_store *store = open_store(folder, "1", &warnings);
    put(store, class, 1, 1.0);
    cr_expect(warnings.count == 1);
    cr_assert(unlink(path) == 0);
    put(store, class, 2, 1.0);
    ca_store_destroy(store);
    store = open_store(folder, "1", &warnings);
    cr_expect(count(store, 1) == 2);
    ca_store_destroy(store);
    store_folder_remove(folder);
}

/* ---- without memory --------------------------------------------------------------------------- */

Test(store, allocations_that_fail) {
    char folder[STORE_FOLDER];
    struct store_warnings warnings;
    struct made_entry made;
    const struct ca_entry *entry = table_entry(&made, 9, 1.0);
    const char *failed = "";

    store_folder_make(folder);
    const clattn_device_info dev = table_device_info(1, "1");
    const struct ca_log log = {store_warn, &warnings};
    for (size_t n = 0; failed; n++) {
        const long alive = faults_allocations_alive();
        faults_arm(FAULT_MEMORY, n, 0);
        struct ca_store *store = ca_store_create(folder, &dev, &log);
        failed = faults_disarm();
        cr_assert((store == NULL) == (failed != NULL));
        ca_store_destroy(store);
        cr_assert(faults_allocations_alive() == alive);
    }
    struct ca_store *store = open_store(folder, "1", &warnings);
    put(store, class, 1, 1.0);
    ca_store_destroy(store);
    for (int what = 0; what < 4; what++) {
        failed = "";
        for (size_t n = 0; failed; n++) {
            const struct ca_banned banned = {(char *)class, entry->family,      entry->tunables,
                                             entry->source, entry->declaration, entry->policy,
                                             entry->when};
            struct ca_table from = {NULL, 0};
            const long alive = faults_allocations_alive();
            size_t changed;
            store = open_store(folder, "1", &warnings);
            faults_arm(FAULT_MEMORY, n, 0);
            const clattn_status status = what == 0   ? ca_store_put(store, class, entry, 1)
                                         : what == 1 ? ca_store_ban(store, &banned)
                                         : what == 2 ? ca_store_merge(store, &from, &changed)
                                                     : ca_store_forget(store, class, &changed);
            failed = faults_disarm();
            cr_assert(status == CLATTN_SUCCESS || (failed && status == CLATTN_OUT_OF_MEMORY) ||
                      (failed && what == 3 && status == CLATTN_FILE_ERROR));
            cr_assert(status == CLATTN_SUCCESS || warnings.errors == 1);
            cr_assert(count(store, 1) >= 1 || what == 3, "step %zu of %d", n, what);
            cr_expect(strstr(warnings.last, "damaged") == NULL, "%s", warnings.last);
            ca_store_destroy(store);
            cr_assert(faults_allocations_alive() == alive);
        }
    }
    failed = "";
    for (size_t n = 0; failed; n++) {
        store = open_store(folder, "1", &warnings);
        put(store, class, 1, 1.0);
        ca_store_destroy(store);
        store = open_store(folder, "1", &warnings);
        faults_arm(FAULT_MEMORY, n, 0);
        const struct ca_view view = ca_store_lock(store);
        failed = faults_disarm();
        cr_assert(view.table != NULL);
        cr_assert(view.status == (failed ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS));
        ca_store_unlock(store);
        cr_assert(count(store, 1) >= 1, "it is there once there is memory");
        ca_store_destroy(store);
    }
    store_folder_remove(folder);
}
