/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#endif

static int place(ca_file folder)
{
    return folder == CA_NO_FILE ? AT_FDCWD : (int)folder;
}

/* ---- what a file is --------------------------------------------------------------------------- */

static bool tell(bool found, const struct stat *status, struct ca_file_facts *facts)
{
    if (found)
        *facts = (struct ca_file_facts){
            .kind = S_ISREG(status->st_mode)   ? CA_FILE_REGULAR
                    : S_ISDIR(status->st_mode) ? CA_FILE_FOLDER
                    : S_ISLNK(status->st_mode) ? CA_FILE_LINK
                                               : CA_FILE_OTHER,
            .removed = status->st_nlink == 0,
            .bytes = (unsigned long long)status->st_size,
            .written = status->st_mtim.tv_sec,
            .written_nanoseconds = status->st_mtim.tv_nsec,
            .volume = (unsigned long long)status->st_dev,
            .number = (unsigned long long)status->st_ino,
            .owner = (unsigned long)status->st_uid,
            .group = (unsigned long)status->st_gid,
            .access = (unsigned long)status->st_mode & 0777,
        };
    return found;
}

bool ca_file_ask(ca_file file, struct ca_file_facts *facts)
{
    struct stat status;

    return tell(fstat((int)file, &status) == 0, &status, facts);
}

bool ca_file_find(ca_file folder, const char *path, struct ca_file_facts *facts)
{
    struct stat status;

    return tell(fstatat(place(folder), path, &status, AT_SYMLINK_NOFOLLOW) == 0, &status, facts);
}

bool ca_file_follow(const char *path, struct ca_file_facts *facts)
{
    struct stat status;

    return tell(stat(path, &status) == 0, &status, facts);
}

bool ca_file_is_same(const struct ca_file_facts *a, const struct ca_file_facts *b)
{
    return a->volume == b->volume && a->number == b->number && a->bytes == b->bytes &&
           a->written == b->written && a->written_nanoseconds == b->written_nanoseconds;
}

bool ca_file_owner_is_trusted(const struct ca_file_facts *facts, char *why, size_t why_bytes)
{
    const unsigned long me = (unsigned long)geteuid();

    if (facts->owner == me || facts->owner == 0)
        return true;
    snprintf(why, why_bytes, "it belongs to user %lu, not to user %lu", facts->owner, me);
    return false;
}

bool ca_file_is_trusted(const struct ca_file_facts *facts, char *why, size_t why_bytes)
{
    const bool group = (facts->access & S_IWGRP) && facts->group != facts->owner;

    if (!ca_file_owner_is_trusted(facts, why, why_bytes))
        return false;
    if (!group && !(facts->access & S_IWOTH))
        return true;
    snprintf(why, why_bytes, "%s may write to it (its mode is %03lo)",
             group ? "a group" : "everybody", facts->access);
    return false;
}

bool ca_file_is_writable(const char *path)
{
    return access(path, W_OK) == 0;
}

bool ca_file_share_as(ca_file file, const struct ca_file_facts *facts)
{
    return fchmod((int)file, (mode_t)facts->access) == 0;
}

/* ---- open files ------------------------------------------------------------------------------- */

ca_file ca_file_open(ca_file folder, const char *path, enum ca_file_use use)
{
    static const int flags[] = {
        [CA_FILE_READ] = O_RDONLY,
        [CA_FILE_CHANGE] = O_RDWR | O_CREAT,
        [CA_FILE_MAKE] = O_WRONLY | O_CREAT | O_EXCL,
        [CA_FILE_MAKE_SHARED] = O_WRONLY | O_CREAT | O_EXCL,
    };

    return openat(place(folder), path, flags[use] | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                  use == CA_FILE_MAKE_SHARED ? 0666 : 0600);
}

ca_file ca_file_open_any(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool ca_file_close(ca_file file)
{
    const int error = errno;
    const bool closed = close((int)file) == 0;

    if (closed)
        errno = error;
    return closed;
}

ptrdiff_t ca_file_read(ca_file file, void *data, size_t bytes, unsigned long long at)
{
    size_t done = 0;

    while (done < bytes) {
        char *to = (char *)data + done;
        ssize_t more = pread((int)file, to, bytes - done, (off_t)(at + done));
        if (more < 0 && errno == ESPIPE)
            more = read((int)file, to, bytes - done);
        if (more < 0 && errno != EINTR)
            return -1;
        if (more == 0)
            break;
        done += more > 0 ? (size_t)more : 0;
    }
    return (ptrdiff_t)done;
}

bool ca_file_write(ca_file file, const void *data, size_t bytes, unsigned long long at)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t more =
            pwrite((int)file, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (more == 0 || (more < 0 && errno != EINTR))
            return false;
        done += more > 0 ? (size_t)more : 0;
    }
    return true;
}

bool ca_file_truncate(ca_file file)
{
    return ftruncate((int)file, 0) == 0;
}

bool ca_file_touch(ca_file file)
{
    return futimens((int)file, NULL) == 0;
}

/* Some file systems cannot do this for folders. It then counts as done, since nothing more is
 * possible. */
bool ca_file_make_durable(ca_file file)
{
    return fsync((int)file) == 0 || errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
}

FILE *ca_stream_open(const char *path, const char *mode)
{
    char own[8];

    snprintf(own, sizeof own, "%se", mode);
    return fopen(path, own);
}

/* ---- folders ---------------------------------------------------------------------------------- */

ca_file ca_folder_open(const char *path, bool follow_link)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow_link ? 0 : O_NOFOLLOW));
}

bool ca_folder_make(const char *path)
{
    return mkdir(path, 0700) == 0;
}

bool ca_file_remove(ca_file folder, const char *path)
{
    return unlinkat(place(folder), path, 0) == 0;
}

bool ca_file_rename(ca_file folder, const char *from, const char *to)
{
    return renameat(place(folder), from, place(folder), to) == 0;
}

struct ca_listing *ca_listing_open(ca_file folder)
{
    DIR *stream = folder != CA_NO_FILE ? fdopendir((int)folder) : NULL;

    if (folder != CA_NO_FILE && !stream)
        ca_file_close(folder);
    return (struct ca_listing *)stream;
}

const char *ca_listing_next(struct ca_listing *listing)
{
    errno = 0;
    const struct dirent *entry = readdir((DIR *)listing);
    return entry ? entry->d_name : NULL;
}

ca_file ca_listing_folder(struct ca_listing *listing)
{
    return dirfd((DIR *)listing);
}

void ca_listing_close(struct ca_listing *listing)
{
    if (listing)
        closedir((DIR *)listing);
}
