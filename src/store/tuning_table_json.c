/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON form of a tuning document, as written by tuning_table_print.c. All members are there, in
 * any order, and no others: what this version does not know it would drop when it writes the file.
 *
 *     {"format": "clattn-tuning", "version": 1,
 *      "devices": [                       none of them twice
 *       {"platform": TEXT, "platform_version": TEXT, "vendor": TEXT, "device": TEXT,
 *        "device_version": TEXT, "driver": TEXT,      as OpenCL gives them, '?' for what is not
 *                                                     printable ASCII
 *        "classes": [                     no text twice
 *         {"class": PROBLEM,              the text form of the class's representative
 *          "entries": [                   no configuration with the same hashes twice
 *           {"family": NAME, "tunables": "NAME=value ...",
 *            "seconds": NUMBER,           what entries are ranked by: see below
 *            "low": NUMBER, "high": NUMBER,    95 % interval of the samples' median
 *            "error": NUMBER,             the worst element's over its bound, 0 to 1
 *            "samples": [NUMBER...],      all timings in seconds, 1 to 64 of them
 *            "when": "2026-11-21T09:30:00Z", "policy": TEXT,
 *            "source": HASH, "declaration": HASH}]}],     of the family when it was measured
 *        "quarantine": [
 *         {"class": PROBLEM, "family": NAME, "tunables": "NAME=value ...", "reason": SENTENCE,
 *          "when": TIME, "source": HASH, "declaration": HASH}]}]}
 *
 * Printed, devices, classes and quarantine are sorted by their texts, entries by their seconds.
 *
 * "seconds" is the median of the samples only for what won its race and for what was not raced. Of
 * the others it is the winner's median times the ratio to it that was measured in pairs, which
 * compares better than medians of different moments do; what the race found to be a tie, or what
 * its order puts behind an entry that is not slower, stands a millionth above that one.
 */
#include "store/tuning_table.h"

#include <stdlib.h>
#include <string.h>

static void check(struct ca_json_reader *r, const char *wrong)
{
    if (wrong)
        ca_json_refuse(r, "in it,", wrong);
}

/* Reads the members of an object that has lists besides them. False after a complaint. */
static bool read_members(struct ca_json_reader *r, const struct ca_json *value, const char *what,
                         const struct ca_fields *fields, size_t num_lists, void *object)
{
    if (!ca_json_is(value, CA_JSON_OBJECT) || ca_json_size(value) != fields->count + num_lists)
        ca_json_refuse(r, what, "is not an object with just the members that it must have");
    return ca_json_fields(r, value, fields->list, fields->count, object);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A member that is a list. */
struct list {
    const char *key;
    size_t most, element_bytes;
    void (*read)(struct ca_json_reader *r, const struct ca_json *value, void *element);
    int (*order)(const void *, const void *); /* order to sort by; NULL: the list is not sorted */
    const char *element;                      /* what "is there twice" complains of */
};

/* Sorts, and refuses what is there twice. */
static void sort(struct ca_json_reader *r, const struct list *list, char *array, size_t count)
{
    const size_t bytes = list->element_bytes;

    qsort(array, count, bytes, list->order);
    for (size_t n = 1; n < count; n++)
        if (list->order(array + (n - 1) * bytes, array + n * bytes) == 0)
            ca_json_refuse(r, list->element, "is there twice");
}

/* The elements, sorted, and how many were begun: the caller frees them whatever was wrong. NULL for none. */
static void *read_list(struct ca_json_reader *r, const struct ca_json *object,
                       const struct list *list, size_t *count)
{
    const struct ca_json *values = ca_json_get(object, list->key);
    const size_t size = ca_json_size(values);

    *count = 0;
    if (!ca_json_is(values, CA_JSON_ARRAY) || size > list->most)
        ca_json_refuse(r, list->key, "is missing, or too long, or not a list");
    if (r->status != CLATTN_SUCCESS || size == 0)
        return NULL;
    char *array = calloc(size, list->element_bytes);
    if (!array)
        ca_json_no_memory(r);
    while (r->status == CLATTN_SUCCESS && *count < size) {
        const size_t n = (*count)++;
        list->read(r, ca_json_at(values, n), array + n * list->element_bytes);
    }
    if (r->status == CLATTN_SUCCESS && list->order)
        sort(r, list, array, size);
    return array;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void read_sample(struct ca_json_reader *r, const struct ca_json *value, void *element)
{
    *(double *)element = ca_json_number(r, value, "samples");
}

static void read_entry(struct ca_json_reader *r, const struct ca_json *value, void *element)
{
    static const struct list samples = {
        .key = "samples",
        .most = CA_TABLE_SAMPLES,
        .element_bytes = sizeof(double),
        .read = read_sample,
    };
    struct ca_entry *entry = element;

    read_members(r, value, "an entry", &ca_entry_fields, 1, entry);
    entry->samples = read_list(r, value, &samples, &entry->num_samples);
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_entry_wrong(entry));
}

static void read_class(struct ca_json_reader *r, const struct ca_json *value, void *element)
{
    static const struct list entries = {"entries",  CA_TABLE_CLASS_ENTRIES, sizeof(struct ca_entry),
                                        read_entry, ca_entry_order,         "an entry"};
    struct ca_class *class = element;

    if (read_members(r, value, "a class", &ca_class_fields, 1, class))
        check(r, ca_class_text_wrong(class->text));
    class->entries = read_list(r, value, &entries, &class->num_entries);
    for (size_t n = 0; r->status == CLATTN_SUCCESS && n < class->num_entries; n++)
        if (ca_class_find(class, &class->entries[n]) < n)
            ca_json_refuse(r, "an entry", "is there twice");
}

static void read_banned(struct ca_json_reader *r, const struct ca_json *value, void *element)
{
    struct ca_banned *banned = element;

    if (read_members(r, value, "an element of the quarantine", &ca_banned_fields, 0, banned))
        check(r, ca_banned_wrong(banned));
}

static void read_device(struct ca_json_reader *r, const struct ca_json *value, void *element)
{
    static const struct list classes = {"classes",  SIZE_MAX,       sizeof(struct ca_class),
                                        read_class, ca_class_order, "a class"};
    static const struct list quarantine = {"quarantine", SIZE_MAX,        sizeof(struct ca_banned),
                                           read_banned,  ca_banned_order, "a ban"};
    struct ca_device_table *table = element;

    if (read_members(r, value, "a device", &ca_device_fields, 2, table))
        check(r, ca_device_table_wrong(table));
    table->classes = read_list(r, value, &classes, &table->num_classes);
    table->banned = read_list(r, value, &quarantine, &table->num_banned);
}

/* ---- the document ---------------------------------------------------------------------------- */

static void read_document(struct ca_json_reader *r, const struct ca_json *root,
                          struct ca_table *table)
{
    static const struct list devices = {
        "devices", SIZE_MAX, sizeof(struct ca_device_table), read_device, ca_device_table_order,
        "a device"};

    if (!ca_json_is_format(root, "clattn-tuning"))
        ca_json_refuse(r, "it",
                       "is not a tuning document of clattn: its format is not clattn-tuning");
    ca_json_version(r, root, "its version");
    if (!ca_json_is(root, CA_JSON_OBJECT) || ca_json_size(root) != 3)
        ca_json_refuse(r, "it", "is not an object with just the members that it must have");
    table->devices = read_list(r, root, &devices, &table->num_devices);
}

clattn_status ca_table_read(const char *text, size_t bytes, struct ca_table *table, char *reason,
                            size_t reason_bytes)
{
    struct ca_json_reader r = {.reason = reason, .reason_bytes = reason_bytes};

    memset(table, 0, sizeof *table);
    struct ca_json *root = ca_json_parse(&r, text, bytes, CA_TABLE_BYTES, "tuning document");
    if (root)
        read_document(&r, root, table);
    ca_json_free(root);
    if (r.status != CLATTN_SUCCESS)
        ca_table_free(table);
    return r.status;
}
