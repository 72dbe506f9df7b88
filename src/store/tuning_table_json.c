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
#include "base/log.h"
#include "store/tuning_table.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* What went wrong so far. */
struct reader {
    clattn_status status;
    char *reason;
    size_t reason_bytes;
};

static void refuse(struct reader *r, const char *what, const char *why)
{
    if (r->status == CLATTN_SUCCESS) {
        r->status = CLATTN_FILE_ERROR;
        ca_reason(r->reason, r->reason_bytes, "%s %s", what, why);
    }
}

static void no_memory(struct reader *r)
{
    if (r->status == CLATTN_SUCCESS) {
        r->status = CLATTN_OUT_OF_MEMORY;
        ca_reason(r->reason, r->reason_bytes, "there is no host memory for it");
    }
}

static void check(struct reader *r, const char *wrong)
{
    if (wrong)
        refuse(r, "in it,", wrong);
}

/* ---- members --------------------------------------------------------------------------------- */

static const json_t *read_object(struct reader *r, const json_t *value, const char *what,
                                 size_t members)
{
    if (!json_is_object(value) || json_object_size(value) != members)
        refuse(r, what, "is not an object with just the members that it must have");
    return value;
}

/* A copy of a text, which the caller owns even if it is refused later. */
static char *read_text(struct reader *r, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (r->status != CLATTN_SUCCESS)
        return NULL;
    /* the parser refuses a 0 within a text */
    if (!json_is_string(value) || json_string_length(value) >= CA_TABLE_SENTENCE) {
        refuse(r, key, "is missing, or too long, or not a text");
        return NULL;
    }
    char *copy = malloc(json_string_length(value) + 1);
    if (copy)
        memcpy(copy, json_string_value(value), json_string_length(value) + 1);
    else
        no_memory(r);
    return copy;
}

static double as_number(struct reader *r, const json_t *value, const char *key)
{
    if (!json_is_number(value))
        refuse(r, key, "is missing, or not a number");
    return json_number_value(value);
}

static double read_number(struct reader *r, const json_t *object, const char *key)
{
    return as_number(r, json_object_get(object, key), key);
}

static const json_t *read_array(struct reader *r, const json_t *object, const char *key,
                                size_t most)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_array(value) || json_array_size(value) > most)
        refuse(r, key, "is missing, or too long, or not a list");
    return value;
}

/* ---- entries and quarantine ------------------------------------------------------------------ */

static void read_samples(struct reader *r, const json_t *list, struct ca_entry *entry)
{
    const size_t count = json_array_size(list);

    if (r->status != CLATTN_SUCCESS)
        return;
    entry->samples = malloc((count ? count : 1) * sizeof *entry->samples);
    if (!entry->samples) {
        no_memory(r);
        return;
    }
    for (; entry->num_samples < count; entry->num_samples++)
        entry->samples[entry->num_samples] =
            as_number(r, json_array_get(list, entry->num_samples), "samples");
}

static void read_entry(struct reader *r, const json_t *value, struct ca_entry *entry)
{
    const json_t *object = read_object(r, value, "an entry", 11);

    entry->family = read_text(r, object, "family");
    entry->tunables = read_text(r, object, "tunables");
    entry->source = read_text(r, object, "source");
    entry->declaration = read_text(r, object, "declaration");
    entry->when = read_text(r, object, "when");
    entry->policy = read_text(r, object, "policy");
    entry->seconds = read_number(r, object, "seconds");
    entry->low = read_number(r, object, "low");
    entry->high = read_number(r, object, "high");
    entry->error = read_number(r, object, "error");
    read_samples(r, read_array(r, object, "samples", CA_TABLE_SAMPLES), entry);
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_entry_wrong(entry));
}

static void read_banned(struct reader *r, const json_t *value, struct ca_banned *banned)
{
    const json_t *object = read_object(r, value, "an element of the quarantine", 7);

    banned->problem_class = read_text(r, object, "class");
    banned->family = read_text(r, object, "family");
    banned->tunables = read_text(r, object, "tunables");
    banned->reason = read_text(r, object, "reason");
    banned->when = read_text(r, object, "when");
    banned->source = read_text(r, object, "source");
    banned->declaration = read_text(r, object, "declaration");
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_banned_wrong(banned));
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* An array of as many elements as the list has, all zero; NULL if there are none. */
static void *make_array(struct reader *r, const json_t *list, size_t element_bytes)
{
    void *array = NULL;

    if (r->status == CLATTN_SUCCESS && json_array_size(list) > 0) {
        array = calloc(json_array_size(list), element_bytes);
        if (!array)
            no_memory(r);
    }
    return array;
}

/* Sorts, and refuses what is there twice. */
static void sort(struct reader *r, const char *what, void *array, size_t count,
                 size_t element_bytes, int (*order)(const void *, const void *))
{
    const char *bytes = array;

    if (r->status != CLATTN_SUCCESS || count == 0)
        return;
    qsort(array, count, element_bytes, order);
    for (size_t n = 1; n < count; n++)
        if (order(bytes + (n - 1) * element_bytes, bytes + n * element_bytes) == 0)
            refuse(r, what, "is there twice");
}

static void read_class(struct reader *r, const json_t *value, struct ca_class *class)
{
    const json_t *object = read_object(r, value, "a class", 2);
    const json_t *entries = read_array(r, object, "entries", CA_TABLE_CLASS_ENTRIES);

    class->text = read_text(r, object, "class");
    if (r->status == CLATTN_SUCCESS)
        check(r, ca_class_text_wrong(class->text));
    class->entries = make_array(r, entries, sizeof *class->entries);
    while (r->status == CLATTN_SUCCESS && class->num_entries < json_array_size(entries)) {
        const size_t last = class->num_entries++;
        read_entry(r, json_array_get(entries, last), &class->entries[last]);
        for (size_t n = 0; r->status == CLATTN_SUCCESS && n < last; n++)
            if (ca_entries_same(&class->entries[n], &class->entries[last]))
                refuse(r, "an entry", "is there twice");
    }
    sort(r, "an entry", class->entries, class->num_entries, sizeof *class->entries, ca_entry_order);
}

static void read_device(struct reader *r, const json_t *value, struct ca_device_table *table)
{
    const json_t *object = read_object(r, value, "a device", 8);
    const json_t *classes = read_array(r, object, "classes", SIZE_MAX);
    const json_t *banned = read_array(r, object, "quarantine", SIZE_MAX);

    table->platform = read_text(r, object, "platform");
    table->platform_version = read_text(r, object, "platform_version");
    table->vendor = read_text(r, object, "vendor");
    table->device = read_text(r, object, "device");
    table->device_version = read_text(r, object, "device_version");
    table->driver = read_text(r, object, "driver");
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

static void read_document(struct reader *r, const json_t *root, struct ca_table *table)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version");

    if (!format || strcmp(format, "clattn-tuning") != 0)
        refuse(r, "it", "is not a tuning document of clattn: its format is not clattn-tuning");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        refuse(r, "its version", "is not 1, the only one that this version of clattn knows");
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
    struct reader r = {CLATTN_SUCCESS, reason, reason_bytes};
    json_error_t error = {.text = ""};

    memset(table, 0, sizeof *table);
    ca_reason(reason, reason_bytes, "%s", "");
    if (bytes > CA_TABLE_BYTES) {
        refuse(&r, "it", "is larger than any tuning document");
        return r.status;
    }
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && error.text[0] == '\0') { /* the parser's own allocations fail without a word */
        no_memory(&r);
    } else if (!root) {
        r.status = CLATTN_FILE_ERROR;
        ca_reason(reason, reason_bytes, "line %d is not JSON, or gives a member twice", error.line);
    } else {
        read_document(&r, root, table);
    }
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
