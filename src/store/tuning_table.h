/* SPDX-License-Identifier: Apache-2.0 */
/* Results of tuning as one document: devices, their problem classes with the best
 * configurations, and what is quarantined. The store's file, an export and the shipped table are
 * all this document. Its JSON form is described in tuning_table_json.c. */
#ifndef CA_TUNING_TABLE_H
#define CA_TUNING_TABLE_H

#include "base/json_reader.h"
#include <clattn/device.h>

/* Most entries that a class keeps, and most samples that an entry keeps. */
enum { CA_TABLE_TOP = 5, CA_TABLE_SAMPLES = 64 };

/* The most that a document may hold: bytes in all, and entries of a class (unions exceed
 * CA_TABLE_TOP). */
enum { CA_TABLE_BYTES = 32 << 20, CA_TABLE_CLASS_ENTRIES = 1024 };

/* The largest number of bytes of its texts, with the terminating 0. They are printable ASCII. */
enum { CA_TABLE_NAME = 64, CA_TABLE_LINE = 256, CA_TABLE_SENTENCE = 1024 };

/* One configuration of a class. Texts are owned. */
struct ca_entry {
    char *family, *tunables; /* all tunables, "NAME=value ..." in the family's order */
    char *source,
        *declaration; /* hashes of the family (src/families/family.h) when it was measured */
    /* time of one execution with its 95 % interval (tuning_table_json.c) */
    double seconds, low, high;
    double *samples;
    size_t num_samples;
    double error; /* worst error divided by its bound */
    char *when;   /* "2026-11-21T09:30:00Z" */
    char *policy;
};

struct ca_class {
    char *text; /* the class's text, from ca_problem_class() */
    struct ca_entry *entries;
    size_t num_entries; /* number of entries, which are sorted with the fastest first */
};

/* A configuration that is never used for problems whose programs are alike. */
struct ca_banned {
    char *problem_class, *family, *tunables, *source, *declaration;
    char *reason; /* a sentence */
    char *when;
};

struct ca_device_table {
    char *platform, *platform_version, *vendor, *device, *device_version, *driver;
    struct ca_class *classes; /* sorted by text */
    size_t num_classes;
    struct ca_banned *banned; /* sorted by class, family, tunables */
    size_t num_banned;
};

struct ca_table {
    struct ca_device_table *devices; /* sorted by all their texts */
    size_t num_devices;
};

/* Frees what it holds and leaves an empty table. */
void ca_table_free(struct ca_table *table);

/* Reads a document. CLATTN_FILE_ERROR, with the reason and an empty table, if it is not one of this
 * version, or damaged, or hostile (sizes, depths, numbers that are not finite and positive, control
 * characters, texts that do not parse as problem or tunables' syntax): nothing of such a file is
 * believed. CLATTN_OUT_OF_MEMORY says nothing about the document. */
clattn_status ca_table_read(const char *text, size_t bytes, struct ca_table *table, char *reason,
                            size_t reason_bytes);

/* The document as text, sorted, indented, one sample list per line; the caller frees it. NULL
 * without memory. Equal tables give equal texts. */
char *ca_table_print(const struct ca_table *table);

/* Adds what `from` knows: a union without conflicts. Of two entries for the same device, class,
 * family, tunables and hashes the one with more samples stays, then the newer, then the smaller
 * text of all fields. Commutative, associative and idempotent, hence no class is cut here. *added
 * (may be NULL) counts entries and bans that were not there. False without memory; `to` is then a
 * valid table of which nothing is lost. */
int ca_table_merge(struct ca_table *to, const struct ca_table *from, size_t *added);

/* The table of a device with this driver and platform; made if `make`. NULL if there is none or no
 * memory. */
struct ca_device_table *ca_table_device(struct ca_table *table, const clattn_device_info *dev,
                                        int make);

/* Returns whether it is the same device, whatever the driver's and the platform's version. */
int ca_device_table_is(const struct ca_device_table *table, const clattn_device_info *dev);

/* The table of the same device, driver and platform as another one; NULL if there is none. */
struct ca_device_table *ca_table_find(const struct ca_table *table,
                                      const struct ca_device_table *like);

/* Returns NULL if there is none. */
const struct ca_class *ca_device_table_class(const struct ca_device_table *table,
                                             const char *problem_class);

/* The ban of the same configuration for the same class; NULL if there is none. */
struct ca_banned *ca_device_table_banned(const struct ca_device_table *table,
                                         const struct ca_banned *banned);

/* The index of the entry of the same configuration and hashes, or num_entries. */
size_t ca_class_find(const struct ca_class *class, const struct ca_entry *entry);

/* ---- its parts ------------------------------------------------------------------------------- */

/* The members of its objects but for their lists, in the order in which they are printed: reading,
 * printing, checking, copying, freeing and ordering all go by these. */
struct ca_fields {
    const struct ca_json_field *list; /* the fields, of kind CA_JSON_TEXT or CA_JSON_NUMBER */
    size_t count;
};

extern const struct ca_fields ca_entry_fields, ca_class_fields, ca_banned_fields, ca_device_fields;

/* An entry's samples follow this many of its members. */
enum { CA_ENTRY_BEFORE_SAMPLES = 6 };

/* The member of an object. */
static inline char **ca_field_text(const struct ca_json_field *field, const void *object)
{
    const void *member = (const char *)object + field->offset;

    return (char **)member;
}

static inline double ca_field_number(const struct ca_json_field *field, const void *object)
{
    const void *member = (const char *)object + field->offset;

    return *(const double *)member;
}

/* A copy in which everything but printable ASCII is '?', cut to fit text_bytes: sentences and names
 * of drivers may hold anything. NULL without memory. */
char *ca_text_clean(const char *text, size_t text_bytes);

/* Returns NULL, or which rule of documents is broken. */
const char *ca_class_text_wrong(const char *text);
const char *ca_entry_wrong(const struct ca_entry *entry);
const char *ca_banned_wrong(const struct ca_banned *banned);
/* checks its own texts only */
const char *ca_device_table_wrong(const struct ca_device_table *table);

void ca_entry_free(struct ca_entry *entry);
void ca_class_free(struct ca_class *class);
void ca_banned_free(struct ca_banned *banned);

/* Each puts a copy into the class or table. It replaces the entry of the same configuration, if there is one.
 * False without memory; then nothing has changed. */
int ca_class_put(struct ca_class *class, const struct ca_entry *entry);
int ca_device_table_ban(struct ca_device_table *table, const struct ca_banned *banned);

/* Orders as by strcmp(): entries by time and then by everything else, 0 only for equal ones;
 * devices, classes and bans by what tells them apart. */
int ca_entry_order(const void *a, const void *b);
int ca_device_table_order(const void *a, const void *b);
int ca_class_order(const void *a, const void *b);
int ca_banned_order(const void *a, const void *b);

/* The table of the same device, driver and platform, made if it is not there; NULL without
 * memory. */
struct ca_device_table *ca_table_make_device(struct ca_table *table,
                                             const struct ca_device_table *like);

/* Does what ca_table_merge() does, for one device; *added grows. */
int ca_device_table_merge(struct ca_table *to, const struct ca_device_table *from, size_t *added);

/* The class, made if it is not there; NULL without memory. */
struct ca_class *ca_device_table_make_class(struct ca_device_table *table,
                                            const char *problem_class);

#endif
