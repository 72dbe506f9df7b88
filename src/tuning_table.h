/* What is known from tuning, as one document: devices, their problem classes with the best
 * configurations, and what is quarantined. The store's file, an export and the shipped table are all
 * this document; its JSON form is described in tuning_table_json.c. */
#ifndef CA_TUNING_TABLE_H
#define CA_TUNING_TABLE_H

#include <clattn/device.h>
#include <stddef.h>

/* Most entries that a class keeps, and most samples that an entry keeps. */
enum { CA_TABLE_TOP = 5, CA_TABLE_SAMPLES = 64 };

/* One configuration of a class. Texts are owned. */
struct ca_entry {
    char *family, *tunables;    /* all tunables, "NAME=value ..." in the family's order */
    char *source, *declaration; /* hashes of the family (src/family.h) when it was measured */
    double seconds, low, high;  /* median and its 95 % confidence interval */
    double *samples;
    size_t num_samples;
    double error; /* over its bound */
    char *when;   /* "2026-11-21T09:30:00Z" */
    char *policy;
};

struct ca_class {
    char *text; /* of ca_problem_class() */
    struct ca_entry *entries;
    size_t num_entries; /* fastest first */
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

void ca_table_free(struct ca_table *table);

/* Reads a document. False, with the reason and an empty table, if it is not one of this version, or
 * damaged, or hostile (sizes, depths, numbers that are not finite and positive, control characters,
 * texts that do not parse as problem or tunables' syntax): nothing of such a file is believed. */
int ca_table_parse(const char *text, size_t bytes, struct ca_table *table, char *reason,
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

/* Whether it is the same device, whatever the driver's and the platform's version. */
int ca_device_table_is(const struct ca_device_table *table, const clattn_device_info *dev);

/* NULL if there is none. */
const struct ca_class *ca_device_table_class(const struct ca_device_table *table,
                                             const char *problem_class);

#endif
