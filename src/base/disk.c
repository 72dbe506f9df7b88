#define _XOPEN_SOURCE 700 /* openat, futimens */
#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- trust ------------------------------------------------------------------------------------ */

int ca_disk_trusts_owner(const struct stat *status, char *why, size_t why_bytes)
{
    const uid_t me = geteuid();

    if (status->st_uid == me || status->st_uid == 0)
        return 1;
    ca_reason(why, why_bytes, "it belongs to user %lu, not to user %lu",
              (unsigned long)status->st_uid, (unsigned long)me);
    return 0;
}

int ca_disk_trusts(const struct stat *status, char *why, size_t why_bytes)
{
    const int of_its_owner = (unsigned long)status->st_gid == (unsigned long)status->st_uid;
    const int group = (status->st_mode & S_IWGRP) && !of_its_owner;

    if (!ca_disk_trusts_owner(status, why, why_bytes))
        return 0;
    if (!group && !(status->st_mode & S_IWOTH))
        return 1;
    ca_reason(why, why_bytes, "%s may write to it (its mode is %03o)",
              group ? "a group" : "everybody", (unsigned)status->st_mode & 0777);
    return 0;
}

/* ---- folders ---------------------------------------------------------------------------------- */

/* Why something cannot be opened. Below what is no folder there is nothing. */
static void explain(int error, const char *what, int is_link, char *why, size_t why_bytes)
{
    if (is_link)
        ca_reason(why, why_bytes, "%s is a link", what);
    else if (error == ENOENT || error == ENOTDIR)
        ca_reason(why, why_bytes, "%s", "");
    else
        ca_reason(why, why_bytes, "%s cannot be opened: %s", what, strerror(error));
    errno = error;
}

int ca_disk_open_folder(const char *path, char *why, size_t why_bytes)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;

    if (folder < 0) {
        const int error = errno;
        explain(error, "its folder", lstat(path, &status) == 0 && S_ISLNK(status.st_mode), why,
                why_bytes);
        return -1;
    }
    if (fstat(folder, &status) == 0 && ca_disk_trusts(&status, why, why_bytes))
        return folder;
    close(folder);
    errno = EPERM;
    return -1;
}

/* The name within its folder. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The folder that a path lies in; any but one of the cache need not be trusted. */
static int open_parent(const char *path, int in_cache, char *why, size_t why_bytes)
{
    const size_t length = (size_t)(name_of(path) - path);
    char *parent = malloc(length + 2);
    int folder;

    if (!parent) {
        explain(ENOMEM, "its folder", 0, why, why_bytes);
        return -1;
    }
    memcpy(parent, path, length);
    parent[length] = '\0';
    while (length > 1 && strlen(parent) > 1 && parent[strlen(parent) - 1] == '/')
        parent[strlen(parent) - 1] = '\0';
    if (length == 0)
        strcpy(parent, ".");
    if (in_cache)
        folder = ca_disk_open_folder(parent, why, why_bytes);
    else
        folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = errno;
    free(parent);
    errno = error;
    return folder;
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

/* ---- reading ---------------------------------------------------------------------------------- */

/* Opens a file of the cache, or makes it if the flags say so. */
static int open_file(const char *path, int flags, struct stat *status, char *why, size_t why_bytes)
{
    const int folder = open_parent(path, 1, why, why_bytes);

    if (folder < 0)
        return -1;
    const int descriptor = openat(folder, name_of(path), /* of a pipe: no wait */
                                  flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    const int error = errno;
    close(folder);
    errno = error;
    if (descriptor < 0) {
        explain(error, "it", error == ELOOP, why, why_bytes);
        return -1;
    }
    if (fstat(descriptor, status) != 0 || !S_ISREG(status->st_mode))
        ca_reason(why, why_bytes, "it is not a regular file");
    else if (ca_disk_trusts(status, why, why_bytes))
        return descriptor;
    close(descriptor);
    errno = EPERM;
    return -1;
}

int ca_disk_open_to_read(const char *path, struct stat *status, char *why, size_t why_bytes)
{
    return open_file(path, O_RDONLY, status, why, why_bytes);
}

unsigned char *ca_disk_read(const char *path, size_t most, size_t *bytes, char *why,
                            size_t why_bytes)
{
    struct stat status;
    const int descriptor = ca_disk_open_to_read(path, &status, why, why_bytes);
    unsigned char *data = NULL;
    size_t done = 0;

    *bytes = 0;
    if (descriptor < 0)
        return NULL;
    ca_reason(why, why_bytes, "%s", "");
    if (status.st_size > 0 && (uintmax_t)status.st_size <= most)
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

int ca_disk_open(char *path, char *why, size_t why_bytes)
{
    struct stat status;
    int descriptor = open_file(path, O_RDWR | O_CREAT, &status, why, why_bytes);

    if (descriptor < 0 && errno == ENOENT && ca_disk_make_directories(path))
        descriptor = open_file(path, O_RDWR | O_CREAT, &status, why, why_bytes);
    const int error = errno;
    if (descriptor < 0 && why[0] == '\0')
        ca_reason(why, why_bytes, "its folder cannot be made: %s", strerror(error));
    errno = error;
    return descriptor;
}

void ca_disk_touch(const char *path)
{
    char why[CA_REASON_BYTES];
    struct stat status;
    const int descriptor = ca_disk_open_to_read(path, &status, why, sizeof why);

    if (descriptor < 0)
        return;
    if (status.st_mtime < time(NULL) - CA_DISK_TOUCH_SECONDS)
        futimens(descriptor, NULL);
    close(descriptor);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static const char mark[] = ".tmp-";
enum { DRAWN = 6 };

int ca_disk_is_temporary(const char *name, const char *ending)
{
    const size_t length = strlen(name), drawn = strlen(mark) + DRAWN, ends = strlen(ending);

    return length >= ends + drawn && memcmp(name + length - drawn, mark, strlen(mark)) == 0 &&
           memcmp(name + length - drawn - ends, ending, ends) == 0;
}

/* Makes a file whose name ends with what is drawn; -1 on failure. */
static int make_temporary(int folder, char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char *drawn = name + strlen(name) - DRAWN;
    int descriptor = -1;

    for (uint64_t n = 0; n < 1000 && descriptor < 0; n++) {
        struct timespec now = {0, 0};
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t bits = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^
                        (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)name ^ n << 50;
        bits = (bits ^ bits >> 31) * 0x9e3779b97f4a7c15u;
        bits ^= bits >> 29;
        for (int d = 0; d < DRAWN; d++, bits /= sizeof letters - 1)
            drawn[d] = letters[bits % (sizeof letters - 1)];
        descriptor =
            openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (descriptor < 0 && errno != EEXIST)
            return -1;
    }
    return descriptor;
}

static int write_whole(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t done = write(descriptor, data, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 0;
        data += done;
        bytes -= (size_t)done;
    }
    return 1;
}

/* Of what knows no such thing, such as some file systems' folders, nothing more can be had. */
static int make_durable(int descriptor)
{
    return fsync(descriptor) == 0 || errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
}

int ca_disk_write(const char *path, const void *first, size_t first_bytes, const void *second,
                  size_t second_bytes, unsigned care)
{
    const size_t length = strlen(path);
    char why[CA_REASON_BYTES], *copy = malloc(length + sizeof mark + DRAWN);
    int written = 0, descriptor = -1, folder = -1, error = ENOMEM;

    if (!copy)
        goto done;
    snprintf(copy, length + sizeof mark + DRAWN, "%s%s......", path, mark);
    char *name = copy + (name_of(path) - path);
    folder = ca_disk_make_directories(copy)
                 ? open_parent(path, care & CA_DISK_IN_CACHE, why, sizeof why)
                 : -1;
    descriptor = folder < 0 ? -1 : make_temporary(folder, name);
    error = errno;
    if (descriptor < 0)
        goto done;
    written = write_whole(descriptor, first, first_bytes) &&
              write_whole(descriptor, second, second_bytes) &&
              (!(care & CA_DISK_DURABLE) || make_durable(descriptor));
    error = errno;
    if (close(descriptor) != 0 && written) {
        error = errno;
        written = 0;
    }
    if (written && renameat(folder, name, folder, name_of(path)) != 0) {
        error = errno;
        written = 0;
    }
    if (!written)
        unlinkat(folder, name, 0);
    else if (care & CA_DISK_DURABLE)
        make_durable(folder);
done:
    if (folder >= 0)
        close(folder);
    free(copy);
    errno = error;
    return written;
}
