/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders. Where a function fails, errno says why. */
#ifndef CA_FILE_H
#define CA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* A file or folder that is open; child processes do not inherit it. */
typedef intptr_t ca_file;
enum { CA_NO_FILE = -1 }; /* as a folder: none; the path is taken as it is */

/* Returns whether a character separates the parts of a path. */
static inline bool ca_path_separates(char c)
{
#if defined(_WIN32)
    return c == '/' || c == '\\';
#else
    return c == '/';
#endif
}

/* The last part of a path, its name within its folder. */
static inline const char *ca_path_name(const char *path)
{
    const char *name = path;

    for (; *path; path++)
        if (ca_path_separates(*path))
            name = path + 1;
    return name;
}

/* Returns whether a path begins at a root, and does not depend on the current folder. */
static inline bool ca_path_is_absolute(const char *path)
{
#if defined(_WIN32)
    return ca_path_separates(path[0]) ? ca_path_separates(path[1])
                                      : path[0] && path[1] == ':' && ca_path_separates(path[2]);
#else
    return path[0] == '/';
#endif
}

/* ---- what a file is --------------------------------------------------------------------------- */

enum ca_file_kind { CA_FILE_REGULAR, CA_FILE_FOLDER, CA_FILE_LINK, CA_FILE_OTHER };

struct ca_file_facts {
    enum ca_file_kind kind;
    bool removed; /* the file is open, but no folder lists it any more */
    unsigned long long bytes;
    time_t written; /* time of the last write in seconds; written_nanoseconds is its fraction */
    long written_nanoseconds;
    /* the file system's and the file's number, which together identify the file */
    unsigned long long volume, number;
    unsigned long owner, group, access; /* in the system's own form, for the functions below */
};

/* The facts of an open file; of what a path names, which may be a link itself; of the file that the path leads to. */
bool ca_file_ask(ca_file file, struct ca_file_facts *facts);
bool ca_file_find(ca_file folder, const char *path, struct ca_file_facts *facts);
bool ca_file_follow(const char *path, struct ca_file_facts *facts);

/* Returns whether both are facts of one file, and it was not written between. */
bool ca_file_is_same(const struct ca_file_facts *a, const struct ca_file_facts *b);

/* Returns whether the file's contents may be trusted: it belongs to this process's effective user or to root, and nobody else
 * may write to it. The file's group may write if its number is the owner's, since it then has no other member. If the
 * result is false, why says so, as "it ...". */
bool ca_file_is_trusted(const struct ca_file_facts *facts, char *why, size_t why_bytes);

/* Like ca_file_is_trusted(), but checks the owner only, not who else may write to the file. */
bool ca_file_owner_is_trusted(const struct ca_file_facts *facts, char *why, size_t why_bytes);

/* Returns whether this process may write to the file or folder. */
bool ca_file_is_writable(const char *path);

/* Gives an open file the access rights of a file with these facts. */
bool ca_file_share_as(ca_file file, const struct ca_file_facts *facts);

/* ---- open files ------------------------------------------------------------------------------- */

enum ca_file_use {
    CA_FILE_READ,
    CA_FILE_CHANGE, /* open to read and write; a missing file is created for its owner alone */
    CA_FILE_MAKE,   /* create for the owner alone and open to write; an existing file is an error */
    CA_FILE_MAKE_SHARED /* the same, with the access rights that new files get by default */
};

/* No link as the last part of the path is followed, and nothing is waited for. */
ca_file ca_file_open(ca_file folder, const char *path, enum ca_file_use use);

/* Opens a file that may be a link, or a pipe that has to be waited for. */
ca_file ca_file_open_any(const char *path);

/* Closes a file; leaves errno as it is on success. */
bool ca_file_close(ca_file file);

/* Reads from offset `at`, or the next bytes of a pipe, until so many bytes or the end; -1 on
 * failure. */
ptrdiff_t ca_file_read(ca_file file, void *data, size_t bytes, unsigned long long at);

/* Writes all of it there. Safe in a signal handler. */
bool ca_file_write(ca_file file, const void *data, size_t bytes, unsigned long long at);

/* Empties it. */
bool ca_file_truncate(ca_file file);

/* Sets the time of last write to now. */
bool ca_file_touch(ca_file file);

/* Makes written data survive a power cut, as far as the file system can. */
bool ca_file_make_durable(ca_file file);

/* fopen(), where child processes do not inherit the file. */
FILE *ca_stream_open(const char *path, const char *mode);

/* ---- folders ---------------------------------------------------------------------------------- */

ca_file ca_folder_open(const char *path, bool follow_link);

/* Creates a folder, for its owner alone. */
bool ca_folder_make(const char *path);

bool ca_file_remove(ca_file folder, const char *path);

/* Renames a file, replacing one that has the new name. */
bool ca_file_rename(ca_file folder, const char *from, const char *to);

/* The names in a folder, which is taken over in any case; NULL on failure, and without a folder: errno is then what
 * it was. */
struct ca_listing;
struct ca_listing *ca_listing_open(ca_file folder);
const char *
ca_listing_next(struct ca_listing *listing); /* NULL: no more, errno is 0; or a failure */
ca_file ca_listing_folder(struct ca_listing *listing);
void ca_listing_close(struct ca_listing *listing); /* NULL is none */

#endif
