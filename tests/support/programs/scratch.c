/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* symlink, truncate, utimensat */
#include "tests/support/programs/scratch.h"
#include "os/file.h"
#include "os/temporary.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <sys/utime.h>
#include <windows.h>
#include <winioctl.h>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

char scratch[SCRATCH_BYTES];

void scratch_open(void)
{
#if defined(_WIN32)
    const char *place = ca_temporary_place();
#else
    const char *place = "/tmp";
#endif
    cr_assert(ca_temporary_folder(scratch, sizeof scratch, place, "clattn-test-"));
}

void scratch_close(void)
{
    ca_folder_remove(scratch);
}

const char *scratch_path(const char *name, ...)
{
    static char paths[8][SCRATCH_BYTES + 256];
    static size_t turn;
    char *path = paths[turn++ % 8];
    const int length = snprintf(path, sizeof paths[0], "%s/", scratch);
    va_list arguments;

    va_start(arguments, name);
    vsnprintf(path + length, sizeof paths[0] - (size_t)length, name, arguments);
    va_end(arguments);
    return path;
}

size_t scratch_entries(const char *path)
{
    struct ca_listing *listing = ca_listing_open(ca_folder_open(path, true));
    size_t count = 0;

    while (listing && ca_listing_next(listing))
        count++;
    ca_listing_close(listing);
    return count > 2 ? count - 2 : 0;
}

bool scratch_has(const char *path)
{
    struct ca_file_facts facts;

    return ca_file_find(CA_NO_FILE, path, &facts);
}

unsigned long long scratch_bytes(const char *path)
{
    struct ca_file_facts facts;

    return ca_file_find(CA_NO_FILE, path, &facts) ? facts.bytes : 0;
}

struct scratch_files scratch_find(const char *folder, const char *ending)
{
    struct ca_listing *listing = ca_listing_open(ca_folder_open(scratch_path("%s", folder), true));
    const size_t length = strlen(ending);
    const char *name;
    struct scratch_files found = {0, {""}};

    while (listing && (name = ca_listing_next(listing)) != NULL) {
        if (strlen(name) < length || strcmp(name + strlen(name) - length, ending) != 0)
            continue;
        cr_assert(found.count < sizeof found.paths / sizeof *found.paths);
        snprintf(found.paths[found.count++], SCRATCH_PATH, "%s/%s/%s", scratch, folder, name);
    }
    ca_listing_close(listing);
    return found;
}

bool scratch_link(const char *target, const char *path)
{
#if defined(_WIN32)               /* Wine 8 says that it has made one, and has not */
    const DWORD for_everyone = 2; /* where developers' mode is on */

    return CreateSymbolicLinkA(path, target, for_everyone) && scratch_has(path);
#else
    return symlink(target, path) == 0;
#endif
}

bool scratch_set_time(const char *path, const time_t seconds)
{
#if defined(_WIN32)
    return _utime(path, &(struct _utimbuf){seconds, seconds}) == 0;
#else
    return utimensat(AT_FDCWD, path, (struct timespec[2]){{seconds, 0}, {seconds, 0}}, 0) == 0;
#endif
}

static void make_folder_of(const char *path)
{
    char part[1024];

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part; *at; at++) {
        const char was = *at;
        if (at == part || !ca_path_separates(was))
            continue;
        *at = '\0';
        ca_folder_make(part); /* unless it is there */
        *at = was;
    }
}

void scratch_write_bytes(const char *path, const void *bytes, const size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file) { /* its folder is not there yet */
        make_folder_of(path);
        file = fopen(path, "wb");
    }
    cr_assert(file != NULL, "%s", path);
    cr_assert(fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "%s", path);
}

void scratch_write(const char *path, const char *text)
{
    scratch_write_bytes(path, text, strlen(text));
}

void scratch_write_sparse(const char *path, const char *text, const unsigned long long bytes)
{
    scratch_write(path, text);
#if defined(_WIN32)
    const LARGE_INTEGER end = {.QuadPart = (LONGLONG)bytes};
    HANDLE file =
        CreateFileA(path, GENERIC_WRITE, 0, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    DWORD got;

    cr_assert(file != INVALID_HANDLE_VALUE, "%s", path);
    DeviceIoControl(file, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &got, NULL); /* Wine's files are */
    cr_assert(SetFilePointerEx(file, end, NULL, FILE_BEGIN) && SetEndOfFile(file), "%s", path);
    CloseHandle(file);
#else
    cr_assert(truncate(path, (off_t)bytes) == 0, "%s", path);
#endif
}

char *scratch_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");

    cr_assert(file && fseek(file, 0, SEEK_END) == 0, "%s", path);
    const long bytes = ftell(file);
    cr_assert(bytes >= 0, "%s", path);
    char *text = calloc(1, (size_t)bytes + 1);
    rewind(file);
    cr_assert(text && fread(text, 1, (size_t)bytes, file) == (size_t)bytes, "%s", path);
    fclose(file);
    if (size)
        *size = (size_t)bytes;
    return text;
}
