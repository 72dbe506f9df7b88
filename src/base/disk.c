/* SPDX-License-Identifier: Apache-2.0 */
#include "base/disk.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/environment.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int ca_disk_is_shortage(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == EINTR;
}

/* ---- folders ---------------------------------------------------------------------------------- */

/* Why something cannot be opened. If a part of the path is not a folder, there is nothing to open.
 * */
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

ca_file ca_disk_open_folder(const char *path, char *why, size_t why_bytes)
{
    const ca_file folder = ca_folder_open(path, false);
    struct ca_file_facts facts;

    if (folder == CA_NO_FILE) {
        const int error = errno;
        explain(error, "its folder",
                ca_file_find(CA_NO_FILE, path, &facts) && facts.kind == CA_FILE_LINK, why,
                why_bytes);
        return CA_NO_FILE;
    }
    if (ca_file_ask(folder, &facts) && ca_file_is_trusted(&facts, why, why_bytes))
        return folder;
    ca_file_close(folder);
    errno = EPERM;
    return CA_NO_FILE;
}

/* The folder of a path; only folders in the cache need be trusted. */
static ca_file open_parent(const char *path, int in_cache, char *why, size_t why_bytes)
{
    const size_t length = (size_t)(ca_path_name(path) - path);
    char *parent = malloc(length + 2);

    if (!parent) {
        explain(ENOMEM, "its folder", 0, why, why_bytes);
        return CA_NO_FILE;
    }
    memcpy(parent, path, length);
    parent[length] = '\0';
    while (length > 1 && strlen(parent) > 1 && ca_path_separates(parent[strlen(parent) - 1]))
        parent[strlen(parent) - 1] = '\0';
    if (length == 0)
        strcpy(parent, ".");
    const ca_file folder =
        in_cache ? ca_disk_open_folder(parent, why, why_bytes) : ca_folder_open(parent, true);
    const int error = errno;
    free(parent);
    errno = error;
    return folder;
}

/* Creates a path's directories, but not its last part, as mkdir -p does. 0 on failure. The path is
 * changed and changed back. */
static int make_directories(char *path)
{
    for (char *at = path + 1; *at; at++) {
        const char separator = *at;
        if (!ca_path_separates(separator))
            continue;
        *at = '\0';
        const int made = ca_folder_make(path) || errno == EEXIST;
        *at = separator;
        if (!made)
            return 0;
    }
    return 1;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* Opens a file of the cache. */
static ca_file open_file(const char *path, enum ca_file_use use, struct ca_file_facts *facts,
                         char *why, size_t why_bytes)
{
    const ca_file folder = open_parent(path, 1, why, why_bytes);

    if (folder == CA_NO_FILE)
        return CA_NO_FILE;
    const ca_file file = ca_file_open(folder, ca_path_name(path), use);
    ca_file_close(folder);
    if (file == CA_NO_FILE) {
        explain(errno, "it", errno == ELOOP, why, why_bytes);
        return CA_NO_FILE;
    }
    if (!ca_file_ask(file, facts) || facts->kind != CA_FILE_REGULAR)
        ca_reason(why, why_bytes, "it is not a regular file");
    else if (ca_file_is_trusted(facts, why, why_bytes))
        return file;
    ca_file_close(file);
    errno = EPERM;
    return CA_NO_FILE;
}

ca_file ca_disk_open_to_read(const char *path, struct ca_file_facts *facts, char *why,
                             size_t why_bytes)
{
    return open_file(path, CA_FILE_READ, facts, why, why_bytes);
}

unsigned char *ca_disk_read(const char *path, size_t most, size_t *bytes, char *why,
                            size_t why_bytes)
{
    struct ca_file_facts facts;
    const ca_file file = ca_disk_open_to_read(path, &facts, why, why_bytes);
    unsigned char *data = NULL;

    *bytes = 0;
    if (file == CA_NO_FILE)
        return NULL;
    ca_reason(why, why_bytes, "%s", "");
    if (facts.bytes > 0 && facts.bytes <= most)
        data = malloc((size_t)facts.bytes);
    if (data && ca_file_read(file, data, (size_t)facts.bytes, 0) == (ptrdiff_t)facts.bytes) {
        *bytes = (size_t)facts.bytes;
    } else { /* the file has become shorter, or cannot be read */
        free(data);
        data = NULL;
    }
    ca_file_close(file);
    return data;
}

ca_file ca_disk_open(char *path, char *why, size_t why_bytes)
{
    struct ca_file_facts facts;
    ca_file file = open_file(path, CA_FILE_CHANGE, &facts, why, why_bytes);

    if (file == CA_NO_FILE && errno == ENOENT && make_directories(path))
        file = open_file(path, CA_FILE_CHANGE, &facts, why, why_bytes);
    const int error = errno;
    if (file == CA_NO_FILE && why[0] == '\0')
        ca_reason(why, why_bytes, "its folder cannot be made: %s", strerror(error));
    errno = error;
    return file;
}

void ca_disk_touch(const char *path)
{
    char why[CA_REASON_BYTES];
    struct ca_file_facts facts;
    const ca_file file = ca_disk_open_to_read(path, &facts, why, sizeof why);

    if (file == CA_NO_FILE)
        return;
    if (facts.written < time(NULL) - CA_DISK_TOUCH_SECONDS)
        ca_file_touch(file);
    ca_file_close(file);
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

/* Creates a file whose name ends randomly. */
static ca_file make_temporary(ca_file folder, char *name, enum ca_file_use use)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char *drawn = name + strlen(name) - DRAWN;
    ca_file file = CA_NO_FILE;

    for (uint64_t n = 0; n < 1000 && file == CA_NO_FILE; n++) {
        uint64_t bits = (uint64_t)(ca_stopwatch_now() * 1e9) ^ (uint64_t)ca_process_number() << 40 ^
                        (uint64_t)(uintptr_t)name ^ n << 50;
        bits = (bits ^ bits >> 31) * 0x9e3779b97f4a7c15u;
        bits ^= bits >> 29;
        for (int d = 0; d < DRAWN; d++, bits /= sizeof letters - 1)
            drawn[d] = letters[bits % (sizeof letters - 1)];
        file = ca_file_open(folder, name, use);
        if (file == CA_NO_FILE && errno != EEXIST)
            return CA_NO_FILE;
    }
    return file;
}

int ca_disk_write(const char *path, const void *first, size_t first_bytes, const void *second,
                  size_t second_bytes, unsigned care)
{
    const bool shared = care & CA_DISK_SHARED, durable = care & CA_DISK_DURABLE;
    char why[CA_REASON_BYTES], *copy = ca_text_join(path, mark, "......");
    ca_file folder = CA_NO_FILE, file = CA_NO_FILE;
    struct ca_file_facts old;
    bool written = false;

    if (!copy) {
        errno = ENOMEM;
        return 0;
    }
    char *name = copy + (ca_path_name(path) - path);
    if ((care & CA_DISK_NO_FOLDER) || make_directories(copy))
        folder = open_parent(path, care & CA_DISK_IN_CACHE, why, sizeof why);
    if (folder != CA_NO_FILE)
        file = make_temporary(folder, name, shared ? CA_FILE_MAKE_SHARED : CA_FILE_MAKE);
    if (file != CA_NO_FILE) {
        const bool whole =
            (!shared || !ca_file_follow(path, &old) || ca_file_share_as(file, &old)) &&
            ca_file_write(file, first, first_bytes, 0) &&
            ca_file_write(file, second, second_bytes, first_bytes) &&
            (!durable || ca_file_make_durable(file));
        written = ca_file_close(file) && whole && ca_file_rename(folder, name, ca_path_name(path));
    }
    const int error = errno;
    if (file != CA_NO_FILE && !written)
        ca_file_remove(folder, name);
    if (written && durable)
        ca_file_make_durable(folder);
    if (folder != CA_NO_FILE)
        ca_file_close(folder);
    free(copy);
    errno = error;
    return written;
}
