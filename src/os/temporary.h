/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders that are gone when the program ends. Where a function fails, errno says why. */
#ifndef CA_TEMPORARY_H
#define CA_TEMPORARY_H

#include <stdbool.h>
#include <stddef.h>

/* The folder that the environment names for them (TMPDIR), else the system's. */
const char *ca_temporary_place(void);

/* Make an empty file or folder, for its owner alone, of the name and what is drawn behind it. False with the path "". */
bool ca_temporary_file(char *path, size_t bytes, const char *folder, const char *name);
bool ca_temporary_folder(char *path, size_t bytes, const char *folder, const char *name);

/* Removes a folder with all of its contents. */
void ca_folder_remove(const char *path);

/* The bytes that still fit into a folder's file system; 0 where that is not known. */
double ca_folder_room(const char *path);

#endif
