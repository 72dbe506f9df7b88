/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tuning documents: their names, reading them when they have changed, and setting damaged ones
 * aside.
 *
 * All files lie in <cache directory>/tuning. Those of one device, whatever its driver, have a
 * common stem, "<device>-<hash of vendor, device and platform>", and share the lock <stem>.lock (src/base/file_lock.h). */
#ifndef CA_STORE_FILE_H
#define CA_STORE_FILE_H

#include "os/file.h"
#include "store/tuning_table.h"

struct ca_store_file {
    char *path;
    struct ca_table table; /* the file's contents when it was last read */
    int present;           /* not 0: the file was there, with the identity that follows */
    struct ca_file_facts identity;
    int stuck; /* not 0: it is damaged and could not be set aside, and must not be replaced */
};

/* "<device>-<hash>", and "-<hash of the versions>.json" which follows it in the device's file of
 * this driver. */
enum { CA_STEM_TEXT = 64, CA_VERSION_TEXT = 24 };
void ca_store_stem(const clattn_device_info *dev, char text[CA_STEM_TEXT]);
void ca_store_version(const clattn_device_info *dev, char text[CA_VERSION_TEXT]);

/* Reads the file if it has changed since it was last read, or if `again`. Bans without a lasting reason (quarantine.h) are
 * removed. A missing file is an empty table. *changed becomes 1 if the table may differ from before. CLATTN_FILE_ERROR, with
 * the reason and an empty table: the file is damaged. CLATTN_OUT_OF_MEMORY: nothing has changed. */
clattn_status ca_store_file_read(struct ca_store_file *file, int again, int *changed, char *reason,
                                 size_t reason_bytes);

/* Replaces the file, and with success takes the table over. CLATTN_FILE_ERROR, with the reason, if that is not
 * possible, CLATTN_OUT_OF_MEMORY without memory. The lock must be held. */
clattn_status ca_store_file_write(struct ca_store_file *file, struct ca_table *table, char *reason,
                                  size_t reason_bytes);

/* Renames the file to <path>.damaged-<n>, which receives the name; the caller frees it. NULL if
 * that is not possible; the file is then stuck. The lock must be held. */
char *ca_store_file_set_aside(struct ca_store_file *file);

void ca_store_file_free(struct ca_store_file *file);

/* A whole file of any kind, read to its end; the caller frees it. CLATTN_FILE_ERROR, with the
 * reason, if it cannot be read or is larger than any document. */
clattn_status ca_document_load(const char *path, char **text, size_t *bytes, char *reason,
                               size_t reason_bytes);

#endif
