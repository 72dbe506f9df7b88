/* Forgetting what the cache of programs holds against programs. */
#define _POSIX_C_SOURCE 200809L /* opendir, unlink */
#include "base/disk.h"
#include "program/program_cache.h"
#include "program/program_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A bad verdict's file is its header and a sentence; binaries are larger, or no verdicts. */
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

static int is_program(const char *name)
{
    const size_t length = strlen(name);

    return length > 6 && strcmp(name + length - 6, ".clbin") == 0;
}

static int remove_if(const char *path, const char *const *lines, size_t num_lines)
{
    size_t bytes;
    unsigned char *data = ca_disk_read(path, MOST_BYTES, &bytes);
    const int condemns = data && ca_program_file_condemns(data, bytes, lines, num_lines);

    free(data);
    return condemns && unlink(path) == 0;
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
    const size_t room = ctx->cache_directory ? strlen(ctx->cache_directory) + 300 : 0;
    char *path = room ? malloc(room) : NULL;
    DIR *folder = NULL;
    struct dirent *entry;
    size_t removed = 0;

    if (path) {
        snprintf(path, room, "%s/programs", ctx->cache_directory);
        folder = opendir(path);
    }
    while (folder && (entry = readdir(folder)) != NULL) {
        const int length =
            snprintf(path, room, "%s/programs/%s", ctx->cache_directory, entry->d_name);
        if (length < (int)room && is_program(entry->d_name))
            removed += (size_t)remove_if(path, lines, LINES);
    }
    if (folder)
        closedir(folder);
    free(path);
    return removed;
}
