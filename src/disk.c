#define _POSIX_C_SOURCE 200809L /* mkstemp, fdopen, mkdir */
#include "disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *a, const char *b)
{
    const size_t bytes = strlen(a) + strlen(b) + 1;
    char *text = malloc(bytes);

    if (text)
        snprintf(text, bytes, "%s%s", a, b);
    return text;
}

char *ca_disk_directory(const char *given)
{
    const struct {
        const char *value, *rest;
    } places[] = {
        {given, ""},
        {getenv("CLATTN_CACHE_DIR"), ""},
        {getenv("XDG_CACHE_HOME"), "/clattn"},
        {getenv("HOME"), "/.cache/clattn"},
    };

    for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
        if (!places[n].value)
            continue;
        if (*places[n].value)
            return join(places[n].value, places[n].rest);
        if (n < 2) /* set and empty: no cache is wanted; elsewhere as if unset */
            return NULL;
    }
    return NULL;
}

unsigned char *ca_disk_read(const char *path, size_t most, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long size;

    *bytes = 0;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0 && (size_t)size <= most &&
        fseek(file, 0, SEEK_SET) == 0) {
        data = malloc((size_t)size);
        if (data && fread(data, 1, (size_t)size, file) != (size_t)size) {
            free(data);
            data = NULL;
        }
        *bytes = data ? (size_t)size : 0;
    }
    fclose(file);
    return data;
}

int ca_disk_make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return 0;
    }
    return 1;
}

static int write_parts(int descriptor, const void *first, size_t first_bytes, const void *second,
                       size_t second_bytes)
{
    FILE *file = fdopen(descriptor, "wb");

    if (!file) {
        close(descriptor);
        return 0;
    }
    const int written = fwrite(first, 1, first_bytes, file) == first_bytes &&
                        fwrite(second, 1, second_bytes, file) == second_bytes && fflush(file) == 0;
    return (fclose(file) == 0) & written;
}

int ca_disk_write(const char *path, const void *first, size_t first_bytes, const void *second,
                  size_t second_bytes)
{
    char *temporary = join(path, ".tmp-XXXXXX");
    int written = 0;

    if (!temporary)
        return 0;
    if (ca_disk_make_directories(temporary)) {
        const int descriptor = mkstemp(temporary);
        if (descriptor >= 0) {
            written = write_parts(descriptor, first, first_bytes, second, second_bytes) &&
                      rename(temporary, path) == 0;
            if (!written)
                remove(temporary);
        }
    }
    free(temporary);
    return written;
}
