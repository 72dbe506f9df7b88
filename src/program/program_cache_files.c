/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of the program cache: forgetting bad verdicts, and limiting its size. */
#include "base/disk.h"
#include "base/text.h"
#include "context/first_run.h"
#include "program/program_cache.h"
#include "program/program_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char program[] = ".clbin", begun[] = ".begun";

static int ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), ends = strlen(ending);

    return length > ends && strcmp(name + length - ends, ending) == 0;
}

/* Whether what just failed lacked memory or open files. */
static clattn_status shortage(void)
{
    return ca_disk_is_shortage(errno) ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS;
}

/* The folder of programs; NULL if there is none, or it is not to be trusted, or for a shortage. */
static struct ca_listing *list_folder(const clattn_context *ctx, clattn_status *status)
{
    char why[CA_REASON_BYTES],
        *path = ctx->cache_directory ? ca_text_join(ctx->cache_directory, "/programs", "") : NULL;
    struct ca_listing *listing =
        path ? ca_listing_open(ca_disk_open_folder(path, why, sizeof why)) : NULL;

    *status = listing || !ctx->cache_directory ? CLATTN_SUCCESS
              : path                           ? shortage()
                                               : CLATTN_OUT_OF_MEMORY;
    free(path);
    return listing;
}

/* The next name; NULL if there is none, or for a shortage, or after one. */
static const char *next_name(struct ca_listing *listing, clattn_status *status)
{
    const char *name = listing && *status == CLATTN_SUCCESS ? ca_listing_next(listing) : NULL;

    if (listing && !name && *status == CLATTN_SUCCESS)
        *status = shortage();
    return name;
}

/* ---- forgetting ------------------------------------------------------------------------------- */

/* The file of a verdict that a program is bad has a header and a sentence, or a header after a count of attempts. Larger
 * files are others, such as binaries. */
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

/* Returns whether a file holds the verdict that a program is bad, and its header has all of these lines. */
static int condemns(ca_file folder, const char *name, const char *const *lines, size_t num_lines,
                    clattn_status *status)
{
    const ca_file file = ca_file_open(folder, name, CA_FILE_READ);
    unsigned char data[MOST_BYTES + 1];

    if (file == CA_NO_FILE) {
        *status = shortage();
        return 0;
    }
    const ptrdiff_t bytes = ca_file_read(file, data, sizeof data, 0);
    ca_file_close(file);
    if (bytes <= 0 || bytes == sizeof data ||
        (ends_with(name, begun) && data[0] < '0' + CA_FIRST_RUN_DEATHS))
        return 0;
    return ca_program_file_condemns(data, (size_t)bytes, lines, num_lines);
}

clattn_status ca_program_cache_forget(const clattn_context *ctx, const char *options,
                                      size_t *removed)
{
    enum { LINES = 4 };
    struct ca_program_key keys[LINES];
    const char *const lines[LINES] = {
        line_of(&keys[0], "platform", ctx->device.platform_name, 1),
        line_of(&keys[1], "vendor", ctx->device.vendor, 1),
        line_of(&keys[2], "device", ctx->device.name, 1),
        line_of(&keys[3], "options", options, 0),
    };
    clattn_status status;
    struct ca_listing *listing = list_folder(ctx, &status);
    const char *name;

    *removed = 0;
    while ((name = next_name(listing, &status)) != NULL)
        if ((ends_with(name, program) || ends_with(name, begun)) &&
            condemns(ca_listing_folder(listing), name, lines, LINES, &status))
            *removed += ca_file_remove(ca_listing_folder(listing), name);
    ca_listing_close(listing);
    return status;
}

/* ---- a limit ---------------------------------------------------------------------------------- */

struct file {
    char name[64]; /* the cache's own names are shorter */
    unsigned long long bytes;
    time_t used; /* the time of the last use, in seconds and nanoseconds */
    long nanoseconds;
};

struct files {
    struct file *list;
    size_t count, capacity;
};

/* False without memory. A longer name than ours have is left out. */
static int add(struct files *files, const char *name, const struct ca_file_facts *facts)
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
    file->bytes = facts->bytes;
    file->used = facts->written;
    file->nanoseconds = facts->written_nanoseconds;
    return 1;
}

static int used_before(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    if (x->used != y->used)
        return x->used < y->used ? -1 : 1;
    return (x->nanoseconds > y->nanoseconds) - (x->nanoseconds < y->nanoseconds);
}

/* Returns whether no process needs the file any more: its writer was killed, or it counts crashed
 * builds of long ago. */
static int is_left(const char *name, const struct ca_file_facts *facts)
{
    enum { WRITING_SECONDS = 3600 };
    const time_t age = time(NULL) - facts->written;

    return (ca_disk_is_temporary(name, program) && age > WRITING_SECONDS) ||
           (ends_with(name, begun) && age > 2 * CA_FIRST_RUN_SECONDS);
}

struct ca_cache_size ca_program_cache_trim(const clattn_context *ctx, unsigned long long most)
{
    struct ca_cache_size size = {0, 0, CLATTN_SUCCESS};
    struct ca_listing *listing = list_folder(ctx, &size.status);
    const ca_file folder = listing ? ca_listing_folder(listing) : CA_NO_FILE;
    struct files files = {NULL, 0, 0};
    struct ca_file_facts facts;
    const char *name;

    while ((name = next_name(listing, &size.status)) != NULL) {
        if (!ca_file_find(folder, name, &facts))
            size.status = shortage();
        else if (is_left(name, &facts))
            ca_file_remove(folder, name);
        else if (ends_with(name, program) && !add(&files, name, &facts))
            size.status = CLATTN_OUT_OF_MEMORY;
    }
    if (size.status != CLATTN_SUCCESS)
        files.count = 0;
    for (size_t n = 0; n < files.count; n++)
        size.bytes += files.list[n].bytes;
    size.files = files.count;
    if (size.bytes > most)
        qsort(files.list, files.count, sizeof *files.list, used_before);
    for (size_t n = 0; n < files.count && size.bytes > most; n++) {
        if (!ca_file_remove(folder, files.list[n].name) && errno != ENOENT)
            continue;
        size.bytes -= files.list[n].bytes;
        size.files--;
    }
    free(files.list);
    ca_listing_close(listing);
    return size;
}
