/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_file.h"
#include "base/disk.h"
#include "base/log.h"
#include "store/quarantine.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* Eight digits for three texts. */
static unsigned hash(const char *a, const char *b, const char *c)
{
    const char *const texts[] = {a, b, c};
    XXH64_hash_t sum = 0;

    for (size_t n = 0; n < 3; n++)
        sum = XXH3_64bits_withSeed(texts[n], strlen(texts[n]), sum);
    return (unsigned)(sum & 0xffffffff);
}

void ca_store_stem(const clattn_device_info *dev, char text[CA_STEM_TEXT])
{
    enum { MOST = CA_STEM_TEXT - 10 };
    size_t length = 0;

    for (const char *at = dev->name; *at && length < MOST; at++) {
        const unsigned char c = (unsigned char)*at;
        if (c < 0x80 && isalnum(c))
            text[length++] = (char)tolower(c);
        else if (length > 0 && text[length - 1] != '-')
            text[length++] = '-';
    }
    while (length > 0 && text[length - 1] == '-')
        length--;
    snprintf(text + length, CA_STEM_TEXT - length, "%s%08x", length ? "-" : "",
             hash(dev->vendor, dev->name, dev->platform_name));
}

void ca_store_version(const clattn_device_info *dev, char text[CA_VERSION_TEXT])
{
    snprintf(text, CA_VERSION_TEXT, "-%08x.json",
             hash(dev->driver_version, dev->platform_version, dev->device_version));
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One byte more than the largest document is read, to see that it is too large. */
static clattn_status read_all(ca_file file, char **text, size_t *bytes, char *reason,
                              size_t reason_bytes)
{
    size_t capacity = 1 << 16;
    ptrdiff_t got;

    *bytes = 0;
    *text = NULL;
    do {
        char *grown = realloc(*text, capacity);
        if (!grown)
            goto no_memory;
        *text = grown;
        got = ca_file_read(file, *text + *bytes, capacity - *bytes, *bytes);
        if (got < 0) {
            ca_reason(reason, reason_bytes, "it cannot be read: %s", strerror(errno));
            goto failed;
        }
        *bytes += (size_t)got;
        if (*bytes > CA_TABLE_BYTES) {
            ca_reason(reason, reason_bytes, "it is larger than any tuning document");
            goto failed;
        }
        if (*bytes == capacity)
            capacity *= 2;
    } while (got != 0);
    return CLATTN_SUCCESS;
failed:
    free(*text);
    *text = NULL;
    return CLATTN_FILE_ERROR;
no_memory:
    free(*text);
    *text = NULL;
    ca_reason(reason, reason_bytes, "there is no host memory for it");
    return CLATTN_OUT_OF_MEMORY;
}

clattn_status ca_document_load(const char *path, char **text, size_t *bytes, char *reason,
                               size_t reason_bytes)
{
    const ca_file file = ca_file_open_any(path);

    *text = NULL;
    *bytes = 0;
    if (file == CA_NO_FILE) {
        const int error = errno;
        ca_reason(reason, reason_bytes, "it cannot be opened: %s", strerror(error));
        return ca_disk_is_shortage(error) ? CLATTN_OUT_OF_MEMORY : CLATTN_FILE_ERROR;
    }
    const clattn_status status = read_all(file, text, bytes, reason, reason_bytes);
    ca_file_close(file);
    return status;
}

/* Opens a file of the cache, which must be no link, and belong to no other user. */
static clattn_status read_table(const char *path, struct ca_table *table, char *reason,
                                size_t reason_bytes)
{
    struct ca_file_facts opened;
    char *text;
    size_t bytes;

    const ca_file file = ca_disk_open_to_read(path, &opened, reason, reason_bytes);
    if (file == CA_NO_FILE)
        return ca_disk_is_shortage(errno) ? CLATTN_OUT_OF_MEMORY : CLATTN_FILE_ERROR;
    clattn_status status = read_all(file, &text, &bytes, reason, reason_bytes);
    ca_file_close(file);
    if (status == CLATTN_SUCCESS)
        status = ca_table_read(text, bytes, table, reason, reason_bytes);
    free(text);
    ca_quarantine_heal(table);
    return status;
}

clattn_status ca_store_file_read(struct ca_store_file *file, int again, int *changed, char *reason,
                                 size_t reason_bytes)
{
    struct ca_table table = {NULL, 0};
    struct ca_file_facts identity = {0};
    clattn_status status = CLATTN_SUCCESS;

    const int present = ca_file_find(CA_NO_FILE, file->path, &identity);
    if (!present && ca_disk_is_shortage(errno))
        return CLATTN_OUT_OF_MEMORY;
    if (present == file->present &&
        (!present || (ca_file_is_same(&identity, &file->identity) && (!again || file->stuck))))
        return CLATTN_SUCCESS;
    if (present)
        status = read_table(file->path, &table, reason, reason_bytes);
    if (status == CLATTN_OUT_OF_MEMORY)
        return status;
    ca_table_free(&file->table);
    file->table = table;
    file->present = present;
    file->identity = identity; /* taken before reading: a file that is replaced meanwhile differs */
    file->stuck = 0;
    *changed = 1;
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

clattn_status ca_store_file_write(struct ca_store_file *file, struct ca_table *table, char *reason,
                                  size_t reason_bytes)
{
    char *text = file->stuck ? NULL : ca_table_print(table);

    ca_reason(reason, reason_bytes, "what is there is damaged and cannot be set aside");

    if (!text)
        return file->stuck ? CLATTN_FILE_ERROR : CLATTN_OUT_OF_MEMORY;
    const size_t bytes = strlen(text);
    const int written =
        bytes <= CA_TABLE_BYTES &&
        ca_disk_write(file->path, text, bytes, "", 0, CA_DISK_IN_CACHE | CA_DISK_DURABLE);
    ca_reason(reason, reason_bytes, "%s",
              bytes <= CA_TABLE_BYTES ? strerror(errno) : "it would be larger than any document");
    free(text);
    if (!written)
        return CLATTN_FILE_ERROR;
    ca_table_free(&file->table);
    file->table = *table;
    *table = (struct ca_table){NULL, 0};
    file->present = ca_file_find(CA_NO_FILE, file->path, &file->identity);
    return CLATTN_SUCCESS;
}

char *ca_store_file_set_aside(struct ca_store_file *file)
{
    enum { MOST = 10000 };
    const size_t bytes = strlen(file->path) + 32;
    char *name = malloc(bytes);
    struct ca_file_facts there;

    for (int n = 1; name && n < MOST; n++) {
        snprintf(name, bytes, "%s.damaged-%d", file->path, n);
        if (ca_file_find(CA_NO_FILE, name, &there))
            continue;
        if (ca_disk_is_shortage(errno) || !ca_file_rename(CA_NO_FILE, file->path, name))
            break;
        file->present = 0;
        return name;
    }
    free(name);
    file->stuck = 1;
    return NULL;
}

void ca_store_file_free(struct ca_store_file *file)
{
    ca_table_free(&file->table);
    free(file->path);
}
