/* SPDX-License-Identifier: Apache-2.0 */
#include "base/disk.h"
#include "base/file_lock.h"
#include "base/text.h"
#include "os/clock.h"
#include "store/store_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- making it ------------------------------------------------------------------------------- */

static struct ca_store_file *add_file(struct ca_store *store, char *path)
{
    struct ca_store_file *files =
        path ? realloc(store->files, (store->num_files + 1) * sizeof *files) : NULL;

    if (!files) {
        free(path);
        return NULL;
    }
    store->files = files;
    files[store->num_files] = (struct ca_store_file){.path = path};
    return &files[store->num_files++];
}

struct ca_store *ca_store_create(const char *cache_directory, const clattn_device_info *dev,
                                 const struct ca_log *log)
{
    struct ca_store *store = calloc(1, sizeof *store);
    char version[CA_VERSION_TEXT], name[CA_STEM_TEXT + 1];

    if (!store || !ca_mutex_init(&store->lock)) {
        free(store);
        return NULL;
    }
    store->log = *log;
    store->waits = CA_STORE_WAITS;
    store->dev = *dev;
    ca_store_stem(dev, store->stem);
    ca_store_version(dev, version);
    snprintf(name, sizeof name, "/%s", store->stem);
    if (cache_directory) {
        store->folder = ca_text_join(cache_directory, "/tuning", "");
        store->lock_path = store->folder ? ca_text_join(store->folder, name, ".lock") : NULL;
        if (!store->lock_path || !add_file(store, ca_text_join(store->folder, name, version))) {
            ca_store_destroy(store);
            return NULL;
        }
    }
    return store;
}

void ca_store_destroy(struct ca_store *store)
{
    if (!store)
        return;
    store->waits = 0.0;
    ca_store_save(store);
    for (size_t n = 0; n < store->num_files; n++)
        ca_store_file_free(&store->files[n]);
    free(store->files);
    free(store->folder);
    free(store->lock_path);
    ca_table_free(&store->unsaved);
    ca_table_free(&store->view);
    ca_mutex_destroy(&store->lock);
    free(store);
}

const char *ca_store_path(const struct ca_store *store)
{
    return store->folder ? store->files[0].path : "";
}

void ca_store_now(char text[CA_WHEN_TEXT])
{
    ca_utc_print(time(NULL), CA_UTC_ISO, text, CA_WHEN_TEXT);
}

/* ---- the lock, and what is said once it is given up ------------------------------------------ */

void ca_store_say(struct ca_store *store, const char *format, ...)
{
    struct sentence **end = &store->sentences, *sentence = calloc(1, sizeof *sentence);
    va_list list;

    if (!sentence)
        return;
    va_start(list, format);
    vsnprintf(sentence->text, sizeof sentence->text, format, list);
    va_end(list);
    while (*end)
        end = &(*end)->next;
    *end = sentence;
}

void ca_store_enter(struct ca_store *store)
{
    ca_mutex_lock(&store->lock);
}

void ca_store_leave(struct ca_store *store)
{
    struct sentence *sentence = store->sentences, *next;

    store->sentences = NULL;
    ca_mutex_unlock(&store->lock);
    for (; sentence; sentence = next) {
        next = sentence->next;
        ca_log_text(&store->log, CLATTN_LOG_WARNING, sentence->text);
        free(sentence);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static int is_document(const char *name)
{
    const size_t length = strlen(name);

    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

/* Adds another driver's file that is not known yet. */
static clattn_status meet(struct ca_store *store, const char *name)
{
    char *path = ca_text_join(store->folder, "/", name);

    for (size_t n = 0; path && n < store->num_files; n++) {
        if (strcmp(path, store->files[n].path) == 0) {
            free(path);
            return CLATTN_SUCCESS;
        }
    }
    return add_file(store, path) ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}

/* Finds the device's files; under the lock also removes what killed writers left behind. A folder that cannot be read
 * for a shortage is not taken for an empty one. */
static clattn_status scan(struct ca_store *store, int locked)
{
    char why[CA_REASON_BYTES];
    const size_t stem = strlen(store->stem);
    struct ca_listing *listing =
        ca_listing_open(ca_disk_open_folder(store->folder, why, sizeof why));
    clattn_status status = CLATTN_SUCCESS;
    const char *name;

    if (!listing)
        return ca_disk_is_shortage(errno) ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS;
    while (status == CLATTN_SUCCESS && (name = ca_listing_next(listing)) != NULL) {
        if (strncmp(name, store->stem, stem) != 0 || name[stem] != '-')
            continue;
        if (is_document(name))
            status = meet(store, name);
        else if (locked && ca_disk_is_temporary(name, ".json"))
            ca_file_remove(ca_listing_folder(listing), name);
    }
    if (status == CLATTN_SUCCESS && ca_disk_is_shortage(errno))
        status = CLATTN_OUT_OF_MEMORY;
    ca_listing_close(listing);
    return status;
}

/* Sets a damaged file aside, unless another process has replaced it meanwhile. While another one writes, it is as if it
 * were not there: that one, or the next that writes, sets it aside. */
static clattn_status set_aside(struct ca_store *store, struct ca_store_file *file, int locked,
                               char *reason, size_t reason_bytes)
{
    struct ca_file_lock lock = {.file = CA_NO_FILE};
    clattn_status status = CLATTN_FILE_ERROR;
    int changed;

    if (!locked)
        ca_file_lock_acquire(&lock, store->lock_path, 0.0);
    if (ca_file_lock_is_held(&lock))
        status = ca_store_file_read(file, 1, &changed, reason, reason_bytes);
    if (status == CLATTN_FILE_ERROR) {
        char *name = locked || ca_file_lock_is_held(&lock) ? ca_store_file_set_aside(file) : NULL;
        file->stuck = name == NULL && lock.state != CA_LOCK_BUSY;
        if (name)
            ca_store_say(store,
                         "the tuning store %.300s is damaged or of another version (%.200s): it is "
                         "set aside as %.400s",
                         file->path, reason, name);
        else
            ca_store_say(store,
                         "the tuning store %.300s is damaged or of another version (%.200s) and is "
                         "ignored",
                         file->path, reason);
        free(name);
        status = CLATTN_SUCCESS;
    }
    ca_file_lock_release(&lock);
    return status;
}

clattn_status ca_store_refresh(struct ca_store *store, int locked)
{
    clattn_status status = store->folder ? scan(store, locked) : CLATTN_SUCCESS;

    for (size_t n = 0; status == CLATTN_SUCCESS && n < store->num_files; n++) {
        struct ca_store_file *file = &store->files[n];
        char reason[CA_REASON_BYTES];
        status =
            ca_store_file_read(file, locked && n == 0, &store->view_is_old, reason, sizeof reason);
        if (status == CLATTN_FILE_ERROR)
            status = set_aside(store, file, locked, reason, sizeof reason);
    }
    return status;
}

/* ---- the view -------------------------------------------------------------------------------- */

static int add_to_view(struct ca_table *view, const struct ca_table *table,
                       const clattn_device_info *dev)
{
    size_t added = 0;
    int whole = 1;

    for (size_t n = 0; whole && n < table->num_devices; n++)
        if (ca_device_table_is(&table->devices[n], dev))
            whole = ca_device_table_merge(view, &table->devices[n], &added);
    return whole;
}

int ca_store_make_view(struct ca_store *store)
{
    struct ca_table view = {NULL, 0};
    int whole = 1;

    if (!store->view_is_old)
        return 1;
    for (size_t n = 0; whole && n < store->num_files; n++)
        whole = add_to_view(&view, &store->files[n].table, &store->dev);
    if (!whole || !add_to_view(&view, &store->unsaved, &store->dev)) {
        ca_table_free(&view);
        return 0;
    }
    ca_table_free(&store->view);
    store->view = view;
    store->view_is_old = 0;
    return 1;
}

struct ca_view ca_store_lock(struct ca_store *store)
{
    ca_store_enter(store);
    clattn_status status = ca_store_refresh(store, 0);
    if (!ca_store_make_view(store))
        status = CLATTN_OUT_OF_MEMORY;
    return (struct ca_view){&store->view, ca_table_device(&store->view, &store->dev, 0), status};
}

void ca_store_unlock(struct ca_store *store)
{
    ca_store_leave(store);
}
