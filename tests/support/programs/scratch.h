/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a test's own, and the files in it. */
#ifndef TEST_SCRATCH_H
#define TEST_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { SCRATCH_BYTES = 200, SCRATCH_PATH = 600 };
extern char scratch[SCRATCH_BYTES]; /* its path, without characters that a shell knows */

/* Makes it and removes it with all that it holds: .init and .fini of a suite. */
void scratch_open(void);
void scratch_close(void);

/* The path of a file in it, whose name is given by a format; valid until some calls later. */
const char *scratch_path(const char *name, ...) __attribute__((format(printf, 1, 2)));

/* Returns how many entries a folder has, but for itself and its parent; 0 if there is none. */
size_t scratch_entries(const char *path);

/* Returns whether something has that path, which may be a link; how many bytes it has. */
bool scratch_has(const char *path);
unsigned long long scratch_bytes(const char *path);

/* The entries of a folder in it whose names end so. */
struct scratch_files {
    size_t count;
    char paths[16][SCRATCH_PATH];
};
struct scratch_files scratch_find(const char *folder, const char *ending);

/* Makes a link to a file that need not be there. Returns false where the system, or its user, makes none. */
bool scratch_link(const char *target, const char *path);

/* Sets the time of a file's last write. */
bool scratch_set_time(const char *path, time_t seconds);

/* A whole file, anywhere, in a folder that is made if need be. The text that is read is to be freed;
 * size may be NULL. One that is sparse has the text, and zeros that take no room up to so many bytes. */
void scratch_write(const char *path, const char *text);
void scratch_write_bytes(const char *path, const void *bytes, size_t size);
void scratch_write_sparse(const char *path, const char *text, unsigned long long bytes);
char *scratch_read(const char *path, size_t *size);

#endif
