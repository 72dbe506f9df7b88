/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tuning_table.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text buffer that grows; NULL once memory has run out. */
struct writer {
    char *text;
    size_t length, capacity;
};

static void put_bytes(struct writer *w, const char *bytes, size_t count)
{
    if (!w->text)
        return;
    if (w->capacity - w->length <= count) {
        const size_t capacity = 2 * (w->capacity + count);
        char *grown = realloc(w->text, capacity);
        if (!grown) {
            free(w->text);
            w->text = NULL;
            return;
        }
        w->text = grown;
        w->capacity = capacity;
    }
    memcpy(w->text + w->length, bytes, count);
    w->length += count;
    w->text[w->length] = '\0';
}

static void put(struct writer *w, const char *text)
{
    put_bytes(w, text, strlen(text));
}

/* Begins a line of some depth; all but the first of its list ends the one before by a comma. */
static void put_line(struct writer *w, int depth, int first)
{
    static const char spaces[] = "\n                ";

    if (!first)
        put(w, ",");
    put_bytes(w, spaces, 1 + (size_t)depth);
}

/* Texts are printable ASCII. */
static void put_text(struct writer *w, const char *text)
{
    put(w, "\"");
    while (*text) {
        const size_t plain = strcspn(text, "\"\\");
        put_bytes(w, text, plain);
        text += plain;
        if (*text) {
            put(w, "\\");
            put_bytes(w, text++, 1);
        }
    }
    put(w, "\"");
}

/* Prints the shortest form that reads back as the same number, with a decimal point in every
 * locale. */
static void put_number(struct writer *w, double number)
{
    const char *point = localeconv()->decimal_point;
    char text[64];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    char *mark = strstr(text, point);
    put_bytes(w, text, mark ? (size_t)(mark - text) : strlen(text));
    if (mark) {
        put(w, ".");
        put(w, mark + strlen(point));
    }
}

static void put_key(struct writer *w, int depth, int first, const char *key)
{
    put_line(w, depth, first);
    put_text(w, key);
    put(w, ": ");
}

/* Some members of an object, a line each; none is before them if they begin with member 0. */
static void put_members(struct writer *w, int depth, const struct ca_fields *fields, size_t begin,
                        size_t end, const void *object)
{
    for (size_t n = begin; n < end; n++) {
        const struct ca_json_field *field = &fields->list[n];
        put_key(w, depth, n == 0, field->key);
        if (field->kind == CA_JSON_TEXT)
            put_text(w, *ca_field_text(field, object));
        else
            put_number(w, ca_field_number(field, object));
    }
}

/* A list of objects of some depth, each of which `put` prints. */
static void put_list(struct writer *w, int depth, const char *key, const void *array, size_t count,
                     size_t element_bytes, void (*put_one)(struct writer *, int, const void *))
{
    put_key(w, depth, 0, key);
    put(w, "[");
    for (size_t n = 0; n < count; n++) {
        put_line(w, depth + 1, n == 0);
        put(w, "{");
        put_one(w, depth + 2, (const char *)array + n * element_bytes);
        put_line(w, depth + 1, 1);
        put(w, "}");
    }
    if (count > 0)
        put_line(w, depth, 1);
    put(w, "]");
}

static void put_entry(struct writer *w, int depth, const void *object)
{
    const struct ca_entry *entry = object;

    put_members(w, depth, &ca_entry_fields, 0, CA_ENTRY_BEFORE_SAMPLES, entry);
    put_key(w, depth, 0, "samples");
    put(w, "[");
    for (size_t n = 0; n < entry->num_samples; n++) {
        put(w, n > 0 ? ", " : "");
        put_number(w, entry->samples[n]);
    }
    put(w, "]");
    put_members(w, depth, &ca_entry_fields, CA_ENTRY_BEFORE_SAMPLES, ca_entry_fields.count, entry);
}

static void put_class(struct writer *w, int depth, const void *object)
{
    const struct ca_class *class = object;

    put_members(w, depth, &ca_class_fields, 0, ca_class_fields.count, class);
    put_list(w, depth, "entries", class->entries, class->num_entries, sizeof *class->entries,
             put_entry);
}

static void put_banned(struct writer *w, int depth, const void *object)
{
    put_members(w, depth, &ca_banned_fields, 0, ca_banned_fields.count, object);
}

static void put_device(struct writer *w, int depth, const void *object)
{
    const struct ca_device_table *table = object;

    put_members(w, depth, &ca_device_fields, 0, ca_device_fields.count, table);
    put_list(w, depth, "classes", table->classes, table->num_classes, sizeof *table->classes,
             put_class);
    put_list(w, depth, "quarantine", table->banned, table->num_banned, sizeof *table->banned,
             put_banned);
}

char *ca_table_print(const struct ca_table *table)
{
    struct writer w = {malloc(4096), 0, 4096};

    put(&w, "{\n \"format\": \"clattn-tuning\",\n \"version\": 1");
    put_list(&w, 1, "devices", table->devices, table->num_devices, sizeof *table->devices,
             put_device);
    put(&w, "\n}\n");
    return w.text;
}
