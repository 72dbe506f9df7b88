/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of the store: lock, read anew, change a copy, write it, take it over. */
#include "base/file_lock.h"
#include "families/candidate.h"
#include "store/store_entry.h"
#include "store/store_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A change in progress. */
struct change {
    struct ca_store *store;
    struct ca_file_lock lock; /* the lock that guards the file among all processes */
    int waits;                /* not 0: the change waits for the lock */
    clattn_status status;
    char why[2 * CA_REASON_BYTES]; /* why the file cannot be written */
};

/* Takes the file's lock before the store's mutex, so that other threads can read while this one waits for a process. */
static struct change begin(struct ca_store *store, int waits)
{
    struct change c = {store, {.file = CA_NO_FILE}, waits, CLATTN_SUCCESS, ""};

    if (store->lock_path) {
        const int again = atomic_load(&store->had_to_wait);
        ca_file_lock_acquire(&c.lock, store->lock_path, waits && !again ? store->waits : 0.0);
        if (waits)
            atomic_store(&store->had_to_wait, c.lock.state == CA_LOCK_BUSY);
    }
    ca_store_enter(store);
    if (c.lock.state == CA_LOCK_HELD_BY_FILE && !store->told) {
        ca_store_say(store, "the tuning store %.600s: %.256s", ca_store_path(store), c.lock.why);
        store->told = 1;
    }
    c.status = c.lock.state == CA_LOCK_NO_MEMORY
                   ? CLATTN_OUT_OF_MEMORY
                   : ca_store_refresh(store, ca_file_lock_is_held(&c.lock));
    if (c.status == CLATTN_SUCCESS && !ca_store_make_view(store))
        c.status = CLATTN_OUT_OF_MEMORY;
    return c;
}

/* Says why the change as a whole failed. */
static clattn_status end(struct change *c)
{
    struct ca_store *store = c->store;

    ca_file_lock_release(&c->lock);
    ca_store_leave(store);
    if (c->status == CLATTN_OUT_OF_MEMORY)
        return ca_fail(&store->log, c->status, "no host memory for the tuning store");
    if (c->status == CLATTN_FILE_ERROR)
        return ca_fail(&store->log, c->status, "the tuning store %.400s cannot be written: %.500s",
                       ca_store_path(store), c->why);
    return c->status;
}

/* Copies what a file holds; the copy of the own file includes entries that could not be written. */
static struct ca_table copy_file(struct change *c, size_t index)
{
    struct ca_store *store = c->store;
    struct ca_table copy = {NULL, 0};

    if (c->status == CLATTN_SUCCESS &&
        ((index < store->num_files && !ca_table_merge(&copy, &store->files[index].table, NULL)) ||
         (index == 0 && !ca_table_merge(&copy, &store->unsaved, NULL))))
        c->status = CLATTN_OUT_OF_MEMORY;
    return copy;
}

/* Writes a changed copy and takes it over. If it cannot be written: keeps it in memory, with one
 * warning per store, or fails. */
static void save(struct change *c, size_t index, struct ca_table *copy, int keep)
{
    struct ca_store *store = c->store;

    if (c->status == CLATTN_SUCCESS && ca_file_lock_is_held(&c->lock)) {
        c->status = ca_store_file_write(&store->files[index], copy, c->why, sizeof c->why);
    } else if (c->status == CLATTN_SUCCESS && store->folder) {
        c->status = CLATTN_FILE_ERROR;
        ca_reason(c->why, sizeof c->why, "%s", c->lock.why);
    }
    if (c->status == CLATTN_SUCCESS && store->folder) {
        if (index == 0)
            ca_table_free(&store->unsaved);
    } else if (c->status == CLATTN_SUCCESS || (c->status == CLATTN_FILE_ERROR && keep)) {
        const int says = c->status == CLATTN_FILE_ERROR && c->waits;
        if (says && !store->warned)
            ca_store_say(
                store,
                "the tuning store %.400s cannot be written (%.400s): what is found is known to "
                "this process only, until it can",
                store->files[0].path, c->why);
        store->warned |= says;
        ca_table_free(&store->unsaved);
        store->unsaved = *copy;
        *copy = (struct ca_table){NULL, 0};
        c->status = CLATTN_SUCCESS;
    }
    ca_table_free(copy);
    store->view_is_old = 1;
}

/* ---- keeping the best ------------------------------------------------------------------------ */

static int is_banned(const struct ca_device_table *table, const clattn_problem *p,
                     const struct ca_entry *entry)
{
    struct ca_candidate candidate;

    return ca_entry_candidate(entry, &candidate) && ca_candidate_ban(table, &candidate, p);
}

/* Cuts a class to CA_TABLE_TOP: banned entries are dropped first, then stale ones, then the
 * slowest. */
static void cut(const struct ca_device_table *table, struct ca_class *class)
{
    clattn_problem p;

    if (class->num_entries <= CA_TABLE_TOP ||
        clattn_problem_parse(class->text, &p, NULL, 0) != CLATTN_SUCCESS)
        return;
    for (int pass = 0; pass < 3; pass++) {
        for (size_t n = class->num_entries; n-- > 0 && class->num_entries > CA_TABLE_TOP;) {
            struct ca_entry *entry = &class->entries[n];
            if ((pass == 0 && !is_banned(table, &p, entry)) ||
                (pass == 1 && ca_entry_is_fresh(entry)))
                continue;
            ca_entry_free(entry);
            class->num_entries--;
            memmove(entry, entry + 1, (class->num_entries - n) * sizeof *entry);
        }
    }
}

/* ---- putting --------------------------------------------------------------------------------- */

/* Rounds to seven digits: they are more than any clock gives, and easier to read than seventeen. */
static double rounded(double number)
{
    char text[32];

    snprintf(text, sizeof text, "%.7g", number);
    return strtod(text, NULL);
}

/* Copies an entry as it is stored: rounded, with an even selection of samples if there are too
 * many; texts stay the same. */
static struct ca_entry kept(const struct ca_entry *entry, double samples[CA_TABLE_SAMPLES])
{
    struct ca_entry made = *entry;

    if (made.num_samples > CA_TABLE_SAMPLES)
        made.num_samples = CA_TABLE_SAMPLES;
    for (size_t n = 0; n < made.num_samples; n++)
        samples[n] = rounded(entry->samples[n * entry->num_samples / made.num_samples]);
    made.samples = samples;
    made.seconds = rounded(entry->seconds);
    made.low = rounded(entry->low);
    made.high = rounded(entry->high);
    made.error = rounded(entry->error);
    return made;
}

/* Selects the valid entries in their stored form. False without memory. */
static int put(struct ca_store *store, struct ca_table *table, const char *problem_class,
               const struct ca_entry *entries, size_t count)
{
    struct ca_device_table *own = ca_table_device(table, &store->dev, 1);
    struct ca_class *class = own ? ca_device_table_make_class(own, problem_class) : NULL;
    double samples[CA_TABLE_SAMPLES];
    int whole = class != NULL;

    for (size_t n = 0; whole && n < count; n++) {
        const struct ca_entry entry = kept(&entries[n], samples);
        whole = ca_class_put(class, &entry);
    }
    if (whole)
        cut(own, class);
    return whole;
}

clattn_status ca_store_put(struct ca_store *store, const char *problem_class,
                           const struct ca_entry *entries, size_t count)
{
    const char *wrong = ca_class_text_wrong(problem_class);
    double samples[CA_TABLE_SAMPLES];

    for (size_t n = 0; !wrong && n < count; n++) {
        const struct ca_entry entry = kept(&entries[n], samples);
        wrong = ca_entry_wrong(&entry);
    }
    if (wrong)
        return ca_fail(&store->log, CLATTN_INVALID_ARGUMENT,
                       "the tuning store takes no such entry: %s", wrong);
    if (count == 0)
        return CLATTN_SUCCESS;
    struct change c = begin(store, 1);
    struct ca_table table = copy_file(&c, 0);
    if (c.status == CLATTN_SUCCESS && !put(store, &table, problem_class, entries, count))
        c.status = CLATTN_OUT_OF_MEMORY;
    save(&c, 0, &table, 1);
    return end(&c);
}

int ca_store_save(struct ca_store *store)
{
    int saved = !store->folder;

    if (!saved) {
        ca_store_enter(store);
        saved = store->unsaved.num_devices == 0;
        ca_store_leave(store);
    }
    if (saved)
        return 1;
    struct change c = begin(store, 1);
    struct ca_table table = copy_file(&c, 0);
    save(&c, 0, &table, 1);
    saved = store->unsaved.num_devices == 0;
    end(&c);
    return saved;
}

/* ---- banning --------------------------------------------------------------------------------- */

clattn_status ca_store_ban(struct ca_store *store, const struct ca_banned *banned)
{
    struct ca_banned clean = *banned;
    const char *wrong;

    clean.reason = ca_text_clean(banned->reason, CA_TABLE_SENTENCE);
    if (!clean.reason)
        return ca_fail(&store->log, CLATTN_OUT_OF_MEMORY, "no host memory for a ban");
    wrong = ca_banned_wrong(&clean);
    if (!wrong && !ca_quarantine_lasts(clean.reason))
        wrong = "its reason may pass";
    if (wrong) {
        free(clean.reason);
        return ca_fail(&store->log, CLATTN_INVALID_ARGUMENT,
                       "the tuning store takes no such ban: %s", wrong);
    }
    struct change c = begin(store, 0);
    const struct ca_device_table *known = ca_table_device(&store->view, &store->dev, 0);
    if (c.status == CLATTN_SUCCESS && !(known && ca_device_table_banned(known, &clean))) {
        struct ca_table table = copy_file(&c, 0);
        struct ca_device_table *own = ca_table_device(&table, &store->dev, 1);
        if (c.status == CLATTN_SUCCESS && !(own && ca_device_table_ban(own, &clean)))
            c.status = CLATTN_OUT_OF_MEMORY;
        save(&c, 0, &table, 1);
    }
    free(clean.reason);
    return end(&c);
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Returns the number of entries and bans of a table that another one (NULL: empty) does not have.
 * */
static size_t count_new(const struct ca_device_table *table, const struct ca_device_table *old)
{
    size_t count = 0;

    for (size_t n = 0; n < table->num_banned; n++)
        count += !old || !ca_device_table_banned(old, &table->banned[n]);
    for (size_t n = 0; n < table->num_classes; n++) {
        const struct ca_class *class = &table->classes[n];
        const struct ca_class *there = old ? ca_device_table_class(old, class->text) : NULL;
        for (size_t e = 0; e < class->num_entries; e++)
            count += !there || ca_class_find(there, &class->entries[e]) == there->num_entries;
    }
    return count;
}

/* Merges, cuts and counts. False without memory. */
static int merge(const struct ca_store *store, struct ca_table *table,
                 const struct ca_device_table *from, size_t *added)
{
    size_t merged = 0;

    if (!ca_device_table_merge(table, from, &merged))
        return 0;
    ca_quarantine_heal(table);
    const struct ca_device_table *to = ca_table_find(table, from);
    for (size_t n = 0; n < to->num_classes; n++)
        cut(to, &to->classes[n]);
    *added += count_new(to, ca_table_find(&store->view, from));
    return 1;
}

clattn_status ca_store_merge(struct ca_store *store, const struct ca_table *from, size_t *added)
{
    struct change c = begin(store, 1);
    struct ca_table table = copy_file(&c, 0);
    size_t ours = 0;

    *added = 0;
    for (size_t n = 0; c.status == CLATTN_SUCCESS && n < from->num_devices; n++) {
        if (!ca_device_table_is(&from->devices[n], &store->dev))
            continue;
        ours++;
        if (!merge(store, &table, &from->devices[n], added))
            c.status = CLATTN_OUT_OF_MEMORY;
    }
    if (ours > 0)
        save(&c, 0, &table, 0);
    else if (c.status == CLATTN_SUCCESS)
        ca_store_say(store, "the document holds nothing of the device '%s'", store->dev.name);
    ca_table_free(&table);
    if (c.status != CLATTN_SUCCESS)
        *added = 0;
    return end(&c);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* Removes a class (NULL: all) of this device's tables; returns how many entries and bans went. */
static size_t forget(const struct ca_store *store, struct ca_table *table,
                     const char *problem_class)
{
    clattn_problem p;
    const int is_one =
        problem_class && clattn_problem_parse(problem_class, &p, NULL, 0) == CLATTN_SUCCESS;
    size_t removed = 0;

    for (size_t d = 0; d < table->num_devices; d++) {
        struct ca_device_table *t = &table->devices[d];
        size_t classes = 0, banned = 0;
        if (!ca_device_table_is(t, &store->dev))
            continue;
        for (size_t n = 0; n < t->num_classes; n++) {
            if (!problem_class || strcmp(t->classes[n].text, problem_class) == 0) {
                removed += t->classes[n].num_entries;
                ca_class_free(&t->classes[n]);
            } else {
                t->classes[classes++] = t->classes[n];
            }
        }
        for (size_t n = 0; n < t->num_banned; n++) {
            if (!problem_class || (is_one && ca_banned_for(&t->banned[n], &p))) {
                removed++;
                ca_banned_free(&t->banned[n]);
            } else {
                t->banned[banned++] = t->banned[n];
            }
        }
        t->num_classes = classes;
        t->num_banned = banned;
    }
    return removed;
}

clattn_status ca_store_forget(struct ca_store *store, const char *problem_class, size_t *removed)
{
    struct change c = begin(store, 1);

    *removed = 0;
    for (size_t n = 0; c.status == CLATTN_SUCCESS && (n == 0 || n < store->num_files); n++) {
        struct ca_table table = copy_file(&c, n);
        const size_t here = forget(store, &table, problem_class);
        if (here > 0)
            save(&c, n, &table, 0);
        ca_table_free(&table);
        *removed += here;
    }
    if (c.status != CLATTN_SUCCESS)
        *removed = 0;
    return end(&c);
}
