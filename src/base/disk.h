/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are whole or not there; in the cache directory only those that nobody else could have written. */
#ifndef CA_DISK_H
#define CA_DISK_H

#include "base/log.h"
#include "os/file.h"

/* Returns whether an error is a shortage of this process rather than a fault of the file or the folder: what cannot be
 * read then may well be there. */
int ca_disk_is_shortage(int error);

/* ---- in the cache ----------------------------------------------------------------------------- */

/*
 * A path in the cache is refused if the file or its folder is a link, or is not trusted (ca_file_is_trusted()). On failure
 * why is "" if there is nothing of that name, else a reason, as "it ...".
 */

/* Opens a folder; CA_NO_FILE on failure, and errno says why. */
ca_file ca_disk_open_folder(const char *path, char *why, size_t why_bytes);

/* Opens a file for reading and asks for its facts. CA_NO_FILE on failure, and if it is no regular file. */
ca_file ca_disk_open_to_read(const char *path, struct ca_file_facts *facts, char *why,
                             size_t why_bytes);

/* The whole file, its size in *bytes; NULL if it is empty, cannot be read or exceeds most bytes. The caller
 * frees it. */
unsigned char *ca_disk_read(const char *path, size_t most, size_t *bytes, char *why,
                            size_t why_bytes);

/* Opens a file for reading and writing; makes it and its folders if they are missing. CA_NO_FILE on failure, with why,
 * which is then never "". The path is changed and changed back. */
ca_file ca_disk_open(char *path, char *why, size_t why_bytes);

/* Sets the time of last use of a cache file to now, for the removal of the least recently used
 * files; not if it is less than CA_DISK_TOUCH_SECONDS old. */
enum { CA_DISK_TOUCH_SECONDS = 3600 };
void ca_disk_touch(const char *path);

/* ---- anywhere --------------------------------------------------------------------------------- */

enum ca_disk_care {
    CA_DISK_IN_CACHE = 1, /* the file lies in the cache: its folder must be trusted, as above */
    CA_DISK_DURABLE = 2,  /* after a power cut either the old or the new file is there in full */
    CA_DISK_SHARED = 4,   /* access rights are those of the file replaced, or the default ones */
    CA_DISK_NO_FOLDER = 8 /* directories that are missing are not made */
};

/*
 * Writes a file of two parts, and makes its directories if they are missing. The file is written under another name and then
 * renamed, so that no process sees half of it. Returns 0 on failure, with errno, and leaves no file. A process that is killed
 * leaves <path>.tmp-<six letters and digits>. care: of enum ca_disk_care.
 */
int ca_disk_write(const char *path, const void *first, size_t first_bytes, const void *second,
                  size_t second_bytes, unsigned care);

/* Returns whether a file has the name of a temporary file that a killed writer left, for a file
 * whose name has this ending. */
int ca_disk_is_temporary(const char *name, const char *ending);

#endif
