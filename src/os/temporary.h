/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files and folders, which the program removes before it ends. When a function fails, errno says why. */
#ifndef CA_TEMPORARY_H
#define CA_TEMPORARY_H

#include <stdbool.h>
#include <stddef.h>

/* The folder for them: the one that TMPDIR names, else the system's. */
const char *ca_temporary_place(void);

/* Make an empty file or folder that its owner alone may use. Its name is `name` and random letters. On failure they return
 * false, and the path is "". */
bool ca_temporary_file(char *path, size_t bytes, const char *folder, const char *name);
bool ca_temporary_folder(char *path, size_t bytes, const char *folder, const char *name);

/* Removes a folder with all of its contents. */
void ca_folder_remove(const char *path);

/* The bytes that still fit into a folder's file system; 0 where that is not known. */
double ca_folder_room(const char *path);

#endif
