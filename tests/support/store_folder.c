#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "tests/support/store_folder.h"
#include "families/registry.h"

#include "families/family.h"
#include "tests/support/tables.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void store_warn(clattn_log_level level, const char *message, void *warnings)
{
    struct store_warnings *w = warnings;

    pthread_mutex_lock(&lock);
    if (level == CLATTN_LOG_ERROR)
        w->errors++;
    if (level == CLATTN_LOG_WARNING) {
        w->count++;
        snprintf(w->last, sizeof w->last, "%s", message);
    }
    pthread_mutex_unlock(&lock);
}

void store_folder_make(char folder[STORE_FOLDER])
{
    snprintf(folder, STORE_FOLDER, "/tmp/clattn-store-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
}

void store_folder_remove(const char *folder)
{
    char command[STORE_FOLDER + 16];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(system(command) == 0);
}

/* Calls visit for each file of the folder of stores, which need not be there yet; returns how many
 * there are. */
static size_t each_file(const char *folder, void (*visit)(const char *path))
{
    char path[600];
    struct dirent *entry;
    size_t files = 0;

    snprintf(path, sizeof path, "%s/tuning", folder);
    DIR *directory = opendir(path);
    if (!directory)
        return 0;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/tuning/%s", folder, entry->d_name);
        if (visit)
            visit(path);
        files++;
    }
    closedir(directory);
    return files;
}

size_t store_folder_files(const char *folder)
{
    return each_file(folder, NULL);
}

static void lock_file(const char *path)
{
    if (strstr(path, ".lock"))
        cr_assert(flock(open(path, O_RDWR), LOCK_EX) == 0);
}

void store_folder_lock(const char *folder)
{
    each_file(folder, lock_file);
}

void store_write(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file) { /* its folder is not there yet */
        char folder[600];
        snprintf(folder, sizeof folder, "mkdir -p \"$(dirname '%s')\"", path);
        cr_assert(system(folder) == 0);
        file = fopen(path, "wb");
    }
    cr_assert(file != NULL, "%s", path);
    cr_assert(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

size_t store_read(const char *path, char *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");

    cr_assert(file != NULL, "%s", path);
    const size_t size = fread(bytes, 1, most, file);
    cr_assert(size < most && fclose(file) == 0);
    return size;
}

void store_unfused_tunables(size_t n, char *text, size_t text_bytes)
{
    const struct ca_family *family = ca_family_find("unfused");
    size_t values[CA_MAX_TUNABLES], last = family->num_tunables - 1;

    ca_tunables_default(family->tunables, family->num_tunables, values);
    cr_assert(n < family->tunables[last].num_candidates);
    values[last] = family->tunables[last].candidates[n];
    ca_tunables_print(family->tunables, family->num_tunables, values, "", text, text_bytes);
}

struct ca_store *store_open(const char *folder, const char *driver, struct store_warnings *warnings)
{
    const clattn_device_info dev = table_device_info(1, driver);
    const struct ca_log log = {store_warn, warnings};
    struct ca_store *store;

    memset(warnings, 0, sizeof *warnings);
    store = ca_store_create(folder, &dev, &log);
    cr_assert(store != NULL);
    return store;
}

void store_put(struct ca_store *store, const char *problem_class, size_t config, double seconds)
{
    struct made_entry made;

    cr_assert(ca_store_put(store, problem_class, table_entry(&made, config, seconds), 1) ==
              CLATTN_SUCCESS);
}

size_t store_count(struct ca_store *store, int own)
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

void store_order(struct ca_store *store, const char *problem_class, char text[512])
{
    const struct ca_view view = ca_store_lock(store);
    const struct ca_class *found = ca_device_table_class(view.own, problem_class);

    text[0] = '\0';
    for (size_t n = 0; n < found->num_entries; n++)
        snprintf(text + strlen(text), 512 - strlen(text), "%s%s", n ? ", " : "",
                 found->entries[n].tunables);
    ca_store_unlock(store);
}
