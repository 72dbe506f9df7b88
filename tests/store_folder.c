#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "store_folder.h"

#include "family.h"
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
