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
#include "base/json_reader.h"
#include "store/tuning_table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(type, member, key) key, CA_JSON_TEXT, offsetof(struct type, member), CA_TABLE_SENTENCE
#define NUMBER(type, member, key) key, CA_JSON_NUMBER, offsetof(struct type, member), 0

static const struct ca_json_field entry_fields[] = {
    {TEXT(ca_entry, family, "family")},     {TEXT(ca_entry, tunables, "tunables")},
    {TEXT(ca_entry, source, "source")},     {TEXT(ca_entry, declaration, "declaration")},
    {TEXT(ca_entry, when, "when")},         {TEXT(ca_entry, policy, "policy")},
    {NUMBER(ca_entry, seconds, "seconds")}, {NUMBER(ca_entry, low, "low")},
    {NUMBER(ca_entry, high, "high")},       {NUMBER(ca_entry, error, "error")},
};

static const struct ca_json_field banned_fields[] = {
    {TEXT(ca_banned, problem_class, "class")},
    {TEXT(ca_banned, family, "family")},
    {TEXT(ca_banned, tunables, "tunables")},
    {TEXT(ca_banned, reason, "reason")},
    {TEXT(ca_banned, when, "when")},
    {TEXT(ca_banned, source, "source")},
    {TEXT(ca_banned, declaration, "declaration")},
};

static const struct ca_json_field class_fields[] = {{TEXT(ca_class, text, "class")}};

static const struct ca_json_field device_fields[] = {
    {TEXT(ca_device_table, platform, "platform")},
    {TEXT(ca_device_table, platform_version, "platform_version")},
    {TEXT(ca_device_table, vendor, "vendor")},
    {TEXT(ca_device_table, device, "device")},
    {TEXT(ca_device_table, device_version, "device_version")},
    {TEXT(ca_device_table, driver, "driver")},
};

enum {
    NUM_ENTRY = sizeof entry_fields / sizeof *entry_fields,
    NUM_BANNED = sizeof banned_fields / sizeof *banned_fields,
    NUM_DEVICE = sizeof device_fields / sizeof *device_fields
};

static void check(struct ca_json_reader *r, const char *wrong)
{
    if (wrong)
        ca_json_refuse(r, "in it,", wrong);
}

/* ---- members --------------------------------------------------------------------------------- */

static const json_t *read_object(struct ca_json_reader *r, const json_t *value, const char *what,
                                 size_t members)
{
    if (!json_is_object(value) || json_object_size(value) != members)
        ca_json_refuse(r, what, "is not an object with just the members that it must have");
    return value;
}

static const json_t *read_array(struct ca_json_reader *r, const json_t *object, const char *key,
                                size_t most)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_array(value) || json_array_size(value) > most)
        ca_json_refuse(r, key, "is missing, or too long, or not a list");
    return value;
}

/* ---- entries and quarantine ------------------------------------------------------------------ */

static void read_samples(struct ca_json_reader *r, const json_t *list, struct ca_entry *entry)
{
    const size_t count = json_array_size(list);

    if (r->status != CLATTN_SUCCESS)
        return;
    entry->samples = malloc((count ? count : 1) * sizeof *entry->samples);
    if (!entry->samples) {
        ca_json_no_memory(r);
        return;
    }
    for (; entry->num_samples < count; entry->num_samples++)
        entry->samples[entry->num_samples] =
            ca_json_number(r, json_array_get(list, entry->num_samples), "samples");
}

static void read_entry(struct ca_json_reader *r, const json_t *value, struct ca_entry *entry)
{
    const json_t *object = read_object(r, value, "an entry", NUM_ENTRY + 1);

    ca_json_fields(r, object, entry_fields, NUM_ENTRY, entry);
    read_samples(r, read_array(r, object, "samples", CA_TABLE_SAMPLES), entry);
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_entry_wrong(entry));
}

static void read_banned(struct ca_json_reader *r, const json_t *value, struct ca_banned *banned)
{
    const json_t *object = read_object(r, value, "an element of the quarantine", NUM_BANNED);

    ca_json_fields(r, object, banned_fields, NUM_BANNED, banned);
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_banned_wrong(banned));
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* An array of as many elements as the list has, all zero; NULL if there are none. */
static void *make_array(struct ca_json_reader *r, const json_t *list, size_t element_bytes)
{
    void *array = NULL;

    if (r->status == CLATTN_SUCCESS && json_array_size(list) > 0) {
        array = calloc(json_array_size(list), element_bytes);
        if (!array)
            ca_json_no_memory(r);
    }
    return array;
}

/* Sorts, and refuses what is there twice. */
static void sort(struct ca_json_reader *r, const char *what, void *array, size_t count,
                 size_t element_bytes, int (*order)(const void *, const void *))
{
    const char *bytes = array;

    if (r->status != CLATTN_SUCCESS || count == 0)
        return;
    qsort(array, count, element_bytes, order);
    for (size_t n = 1; n < count; n++)
        if (order(bytes + (n - 1) * element_bytes, bytes + n * element_bytes) == 0)
            ca_json_refuse(r, what, "is there twice");
}

static void read_class(struct ca_json_reader *r, const json_t *value, struct ca_class *class)
{
    const json_t *object = read_object(r, value, "a class", 2);
    const json_t *entries = read_array(r, object, "entries", CA_TABLE_CLASS_ENTRIES);

    ca_json_fields(r, object, class_fields, 1, class);
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_class_text_wrong(class->text));
    class->entries = make_array(r, entries, sizeof *class->entries);
    while (r->status == CLATTN_SUCCESS && class->num_entries < json_array_size(entries)) {
        const size_t last = class->num_entries++;
        read_entry(r, json_array_get(entries, last), &class->entries[last]);
        for (size_t n = 0; r->status == CLATTN_SUCCESS && n < last; n++)
            if (ca_entries_same(&class->entries[n], &class->entries[last]))
                ca_json_refuse(r, "an entry", "is there twice");
    }
    sort(r, "an entry", class->entries, class->num_entries, sizeof *class->entries, ca_entry_order);
}

static void read_device(struct ca_json_reader *r, const json_t *value,
                        struct ca_device_table *table)
{
    const json_t *object = read_object(r, value, "a device", NUM_DEVICE + 2);
    const json_t *classes = read_array(r, object, "classes", SIZE_MAX);
    const json_t *banned = read_array(r, object, "quarantine", SIZE_MAX);

    ca_json_fields(r, object, device_fields, NUM_DEVICE, table);
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_device_table_wrong(table));
    table->classes = make_array(r, classes, sizeof *table->classes);
    while (r->status == CLATTN_SUCCESS && table->num_classes < json_array_size(classes)) {
        const size_t last = table->num_classes++;
        read_class(r, json_array_get(classes, last), &table->classes[last]);
    }
    sort(r, "a class", table->classes, table->num_classes, sizeof *table->classes, ca_class_order);
    table->banned = make_array(r, banned, sizeof *table->banned);
    while (r->status == CLATTN_SUCCESS && table->num_banned < json_array_size(banned)) {
        const size_t last = table->num_banned++;
        read_banned(r, json_array_get(banned, last), &table->banned[last]);
    }
    sort(r, "a ban", table->banned, table->num_banned, sizeof *table->banned, ca_banned_order);
}

/* ---- the document ---------------------------------------------------------------------------- */

static void read_document(struct ca_json_reader *r, const json_t *root, struct ca_table *table)
{
    if (!ca_json_is_format(root, "clattn-tuning"))
        ca_json_refuse(r, "it",
                       "is not a tuning document of clattn: its format is not clattn-tuning");
    ca_json_version(r, root, "its version");
    read_object(r, root, "it", 3);
    const json_t *devices = read_array(r, root, "devices", SIZE_MAX);
    table->devices = make_array(r, devices, sizeof *table->devices);
    while (r->status == CLATTN_SUCCESS && table->num_devices < json_array_size(devices)) {
        const size_t last = table->num_devices++;
        read_device(r, json_array_get(devices, last), &table->devices[last]);
    }
    sort(r, "a device", table->devices, table->num_devices, sizeof *table->devices,
         ca_device_table_order);
}

clattn_status ca_table_read(const char *text, size_t bytes, struct ca_table *table, char *reason,
                            size_t reason_bytes)
{
    struct ca_json_reader r = {.reason = reason, .reason_bytes = reason_bytes};

    memset(table, 0, sizeof *table);
    json_t *root = ca_json_parse(&r, text, bytes, CA_TABLE_BYTES, "tuning document");
    if (root)
        read_document(&r, root, table);
    json_decref(root);
    if (r.status != CLATTN_SUCCESS)
        ca_table_free(table);
    return r.status;
}

int ca_table_parse(const char *text, size_t bytes, struct ca_table *table, char *reason,
                   size_t reason_bytes)
{
    return ca_table_read(text, bytes, table, reason, reason_bytes) == CLATTN_SUCCESS;
}
