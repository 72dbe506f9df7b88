/* The cache directory and files that are whole or not there. */
#ifndef CA_DISK_H
#define CA_DISK_H

#include <stddef.h>

/*
 * The cache directory: given, unless it is NULL; else $CLATTN_CACHE_DIR, $XDG_CACHE_HOME/clattn or
 * $HOME/.cache/clattn, the first that is set; a relative XDG_CACHE_HOME counts as unset. NULL if that
 * is empty (no cache is wanted), if none is set or if memory runs out. The caller frees it.
 */
char *ca_disk_directory(const char *given);

/* The whole file, its size in *bytes; NULL if it is empty, no regular file, cannot be read or exceeds
 * most bytes. The caller frees it. */
unsigned char *ca_disk_read(const char *path, size_t most, size_t *bytes);

/* Makes a path's directories, but not its last part, as mkdir -p does. 0 on failure. The path is
 * changed and changed back. */
int ca_disk_make_directories(char *path);

/* Opens a file for reading and writing, made with its directories if it is missing. -1 on failure.
 * The path is changed and changed back. */
int ca_disk_open(char *path);

/*
 * Writes a file of two parts, and its directories if they are missing: under another name first,
 * then renamed, so that nobody ever sees half of it. 0 on failure, with nothing left behind; a
 * process that is killed leaves <path>.tmp-<six letters and digits>.
 */
int ca_disk_write(const char *path, const void *first, size_t first_bytes, const void *second,
                  size_t second_bytes);

#endif
