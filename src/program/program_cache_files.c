/* What the cache of programs holds: forgetting what it has against programs, and keeping it small. */
#define _XOPEN_SOURCE 700 /* fdopendir, fstatat, unlinkat */
#include "base/disk.h"
#include "context/first_run.h"
#include "program/program_cache.h"
#include "program/program_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char program[] = ".clbin", begun[] = ".begun";

static int ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), ends = strlen(ending);

    return length > ends && strcmp(name + length - ends, ending) == 0;
}

/* The folder of programs; NULL if there is none, or it is not to be trusted. */
static DIR *open_folder(const clattn_context *ctx)
{
    const size_t room = ctx->cache_directory ? strlen(ctx->cache_directory) + 16 : 0;
    char why[CA_REASON_BYTES], *path = room ? malloc(room) : NULL;

    if (!path)
        return NULL;
    snprintf(path, room, "%s/programs", ctx->cache_directory);
    const int descriptor = ca_disk_open_folder(path, why, sizeof why);
    DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    free(path);
    if (descriptor >= 0 && !folder)
        close(descriptor);
    return folder;
}

/* ---- forgetting ------------------------------------------------------------------------------- */

/* A bad verdict's file is its header and a sentence, or a count before; binaries are larger, or no verdicts. */
enum { MOST_BYTES = CA_PROGRAM_HEADER_BYTES + CA_REASON_BYTES };

/* A line as the header of a file has it; what begins with it if it is not whole. */
static const char *line_of(struct ca_program_key *line, const char *name, const char *value,
                           int whole)
{
    *line = (struct ca_program_key){.length = 0};
    ca_program_key_add(line, name, value);
    if (!whole && line->length > 0)
        line->text[line->length - 1] = '\0';
    return line->text;
}

/* Whether a file says that a program is not to be tried again, as all these lines have it. */
static int condemns(DIR *folder, const char *name, const char *const *lines, size_t num_lines)
{
    const int descriptor =
        openat(dirfd(folder), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    unsigned char data[MOST_BYTES + 1];

    if (descriptor < 0)
        return 0;
    const ssize_t bytes = read(descriptor, data, sizeof data);
    close(descriptor);
    if (bytes <= 0 || bytes == sizeof data ||
        (ends_with(name, begun) && data[0] < '0' + CA_FIRST_RUN_DEATHS))
        return 0;
    return ca_program_file_condemns(data, (size_t)bytes, lines, num_lines);
}

size_t ca_program_cache_forget(const clattn_context *ctx, const char *options)
{
    enum { LINES = 4 };
    struct ca_program_key keys[LINES];
    const char *const lines[LINES] = {
        line_of(&keys[0], "platform", ctx->device.platform_name, 1),
        line_of(&keys[1], "vendor", ctx->device.vendor, 1),
        line_of(&keys[2], "device", ctx->device.name, 1),
        line_of(&keys[3], "options", options, 0),
    };
    DIR *folder = open_folder(ctx);
    struct dirent *entry;
    size_t removed = 0;

    while (folder && (entry = readdir(folder)) != NULL)
        if ((ends_with(entry->d_name, program) || ends_with(entry->d_name, begun)) &&
            condemns(folder, entry->d_name, lines, LINES))
            removed += unlinkat(dirfd(folder), entry->d_name, 0) == 0;
    if (folder)
        closedir(folder);
    return removed;
}

/* ---- a limit ---------------------------------------------------------------------------------- */

struct file {
    char name[64]; /* ours are shorter */
    unsigned long long bytes;
    struct timespec used;
};

struct files {
    struct file *list;
    size_t count, capacity;
};

/* False without memory. A longer name than ours have is left out. */
static int add(struct files *files, const char *name, const struct stat *status)
{
    const size_t length = strlen(name);

    if (length >= sizeof files->list->name)
        return 1;
    if (files->count == files->capacity) {
        const size_t capacity = files->capacity ? 2 * files->capacity : 64;
        struct file *grown = realloc(files->list, capacity * sizeof *grown);
        if (!grown)
            return 0;
        files->list = grown;
        files->capacity = capacity;
    }
    struct file *file = &files->list[files->count++];
    memcpy(file->name, name, length + 1);
    file->bytes = (unsigned long long)status->st_size;
    file->used = status->st_mtim;
    return 1;
}

static int used_before(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Whether nobody works with a file any more: of a killed writer, or a count of deaths that counts no more. */
static int is_left(const char *name, const struct stat *status)
{
    enum { WRITING_SECONDS = 3600 };
    const time_t age = time(NULL) - status->st_mtime;

    return (ca_disk_is_temporary(name, program) && age > WRITING_SECONDS) ||
           (ends_with(name, begun) && age > 2 * CA_FIRST_RUN_SECONDS);
}

struct ca_cache_size ca_program_cache_trim(const clattn_context *ctx, unsigned long long most)
{
    DIR *folder = open_folder(ctx);
    struct ca_cache_size size = {0, 0};
    struct files files = {NULL, 0, 0};
    struct dirent *entry;
    struct stat status;
    int whole = 1;

    while (folder && whole && (entry = readdir(folder)) != NULL) {
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (is_left(entry->d_name, &status))
            unlinkat(dirfd(folder), entry->d_name, 0);
        else if (ends_with(entry->d_name, program))
            whole = add(&files, entry->d_name, &status);
    }
    for (size_t n = 0; n < files.count; n++)
        size.bytes += files.list[n].bytes;
    size.files = files.count;
    if (size.bytes > most)
        qsort(files.list, files.count, sizeof *files.list, used_before);
    for (size_t n = 0; n < files.count && size.bytes > most; n++) {
        if (unlinkat(dirfd(folder), files.list[n].name, 0) != 0 && errno != ENOENT)
            continue;
        size.bytes -= files.list[n].bytes;
        size.files--;
    }
    free(files.list);
    if (folder)
        closedir(folder);
    return size;
}
