/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/temporary.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST_PLACE = 224 };

const char *ca_temporary_place(void)
{
    const char *chosen = getenv("TMPDIR");

    return chosen && *chosen && strlen(chosen) <= MOST_PLACE ? chosen : "/tmp";
}

/* The name as mkstemp() and its like want it. */
static bool name_it(char *path, size_t bytes, const char *folder, const char *name)
{
    const int length = snprintf(path, bytes, "%s/%sXXXXXX", folder, name);

    if (length > 0 && (size_t)length < bytes)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

bool ca_temporary_file(char *path, size_t bytes, const char *folder, const char *name)
{
    const int file = name_it(path, bytes, folder, name) ? mkstemp(path) : -1;

    if (file >= 0)
        return close(file) == 0;
    path[0] = '\0';
    return false;
}

bool ca_temporary_folder(char *path, size_t bytes, const char *folder, const char *name)
{
    if (name_it(path, bytes, folder, name) && mkdtemp(path) != NULL)
        return true;
    path[0] = '\0';
    return false;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    remove(path);
    return 0;
}

void ca_folder_remove(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

double ca_folder_room(const char *path)
{
    struct statvfs facts;

    return statvfs(path, &facts) == 0 ? (double)facts.f_bavail * (double)facts.f_frsize : 0.0;
}
