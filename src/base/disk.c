#define _POSIX_C_SOURCE 200809L /* mkstemp, fdopen, mkdir */
#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
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
        int absolute; /* not 0: as if unset where it is relative, as the XDG specification says */
    } places[] = {
        {given, "", 0},
        {getenv("CLATTN_CACHE_DIR"), "", 0},
        {getenv("XDG_CACHE_HOME"), "/clattn", 1},
        {getenv("HOME"), "/.cache/clattn", 0},
    };

    for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
        if (!places[n].value || (places[n].absolute && *places[n].value != '/'))
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
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* of a pipe: no wait */
    unsigned char *data = NULL;
    struct stat status;
    size_t done = 0;

    *bytes = 0;
    if (descriptor < 0)
        return NULL;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        (uintmax_t)status.st_size <= most)
        data = malloc((size_t)status.st_size);
    while (data && done < (size_t)status.st_size) {
        const ssize_t more = read(descriptor, data + done, (size_t)status.st_size - done);
        if (more > 0) {
            done += (size_t)more;
        } else if (more == 0 || errno != EINTR) { /* it has become shorter, or cannot be read */
            free(data);
            data = NULL;
        }
    }
    close(descriptor);
    *bytes = data ? done : 0;
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

int ca_disk_open(char *path)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC;
    int descriptor = open(path, flags, 0600);

    if (descriptor < 0 && errno == ENOENT && ca_disk_make_directories(path))
        descriptor = open(path, flags, 0600);
    return descriptor;
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
