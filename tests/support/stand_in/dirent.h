/* SPDX-License-Identifier: Apache-2.0 */
/* scandir() and alphasort() of POSIX, which mingw-w64 has not (scandir.c). */
#ifndef STAND_IN_DIRENT_H
#define STAND_IN_DIRENT_H

#pragma GCC system_header /* include_next is an extension */
#include_next <dirent.h>

#if defined(_WIN32)
int scandir(const char *folder, struct dirent ***entries, int (*takes)(const struct dirent *entry),
            int (*order)(const struct dirent **a, const struct dirent **b));
int alphasort(const struct dirent **a, const struct dirent **b);
#endif

#endif
