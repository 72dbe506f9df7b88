/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/programs/scratch.h"
#include "os/file.h"
#include "os/temporary.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char scratch[64];

void scratch_open(void)
{
    cr_assert(ca_temporary_folder(scratch, sizeof scratch, "/tmp", "clattn-test-"));
}

void scratch_close(void)
{
    ca_folder_remove(scratch);
}

const char *scratch_path(const char *name, ...)
{
    static char paths[8][320];
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

void scratch_write_bytes(const char *path, const void *bytes, const size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file) { /* its folder is not there yet */
        char command[1024];
        snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", path);
        cr_assert(system(command) == 0);
        file = fopen(path, "wb");
    }
    cr_assert(file != NULL, "%s", path);
    cr_assert(fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "%s", path);
}

void scratch_write(const char *path, const char *text)
{
    scratch_write_bytes(path, text, strlen(text));
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
