/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/clock.h"
#include "os/environment.h"
#include "os/file.h"
#include "os/temporary.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACE = 224, ATTEMPTS = 1000 };

const char *ca_temporary_place(void)
{
    static const char *const names[] = {"TMPDIR", "TMP", "TEMP", "LOCALAPPDATA"};

    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const char *chosen = ca_environment_value(names[n]);
        if (chosen && *chosen && strlen(chosen) <= MOST_PLACE)
            return chosen;
    }
    return ".";
}

/* Makes something of a name that is drawn, until that name is new. */
static bool make(char *path, size_t bytes, const char *folder, const char *name,
                 bool make_it(const char *path))
{
    uint64_t bits = (uint64_t)(ca_stopwatch_now() * 1e7) ^ (uint64_t)GetCurrentProcessId() << 32;

    for (int n = 0; n < ATTEMPTS; n++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const int length =
            snprintf(path, bytes, "%s/%s%08lx", folder, name, (unsigned long)(bits >> 32));
        if (length < 0 || (size_t)length >= bytes) {
            errno = ENAMETOOLONG;
            break;
        }
        if (make_it(path))
            return true;
        if (errno != EEXIST)
            break;
    }
    path[0] = '\0';
    return false;
}

static bool make_file(const char *path)
{
    const ca_file file = ca_file_open(CA_NO_FILE, path, CA_FILE_MAKE);

    return file != CA_NO_FILE && ca_file_close(file);
}

bool ca_temporary_file(char *path, size_t bytes, const char *folder, const char *name)
{
    return make(path, bytes, folder, name, make_file);
}

bool ca_temporary_folder(char *path, size_t bytes, const char *folder, const char *name)
{
    return make(path, bytes, folder, name, ca_folder_make);
}

void ca_folder_remove(const char *path)
{
    struct ca_listing *listing = ca_listing_open(ca_folder_open(path, false));
    const char *name;

    while (listing && (name = ca_listing_next(listing)) != NULL) {
        const size_t bytes = strlen(path) + strlen(name) + 2;
        char *inner = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? malloc(bytes) : NULL;
        if (!inner)
            continue;
        snprintf(inner, bytes, "%s/%s", path, name);
        if (!ca_file_remove(CA_NO_FILE, inner))
            ca_folder_remove(inner);
        free(inner);
    }
    ca_listing_close(listing);
    wchar_t *wide = ca_windows_wide(path);
    if (wide && !DeleteFileW(wide))
        RemoveDirectoryW(wide);
    free(wide);
}

double ca_folder_room(const char *path)
{
    wchar_t *wide = ca_windows_wide(path);
    ULARGE_INTEGER room = {.QuadPart = 0};

    if (wide)
        GetDiskFreeSpaceExW(wide, &room, NULL, NULL);
    free(wide);
    return (double)room.QuadPart;
}
