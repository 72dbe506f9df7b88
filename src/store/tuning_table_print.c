/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tuning_table.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that grows; NULL once memory has run out. */
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

/* The shortest form that reads back as the same number, with a point whatever the locale. */
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

static void put_text_member(struct writer *w, int depth, int first, const char *key,
                            const char *text)
{
    put_line(w, depth, first);
    put_text(w, key);
    put(w, ": ");
    put_text(w, text);
}

static void put_number_member(struct writer *w, int depth, const char *key, double number)
{
    put_line(w, depth, 0);
    put_text(w, key);
    put(w, ": ");
    put_number(w, number);
}

/* Ends a list of some depth. */
static void put_end(struct writer *w, int depth, size_t count)
{
    if (count > 0)
        put_line(w, depth, 1);
    put(w, "]");
}

static void put_entry(struct writer *w, const struct ca_entry *entry)
{
    put(w, "{");
    put_text_member(w, 7, 1, "family", entry->family);
    put_text_member(w, 7, 0, "tunables", entry->tunables);
    put_number_member(w, 7, "seconds", entry->seconds);
    put_number_member(w, 7, "low", entry->low);
    put_number_member(w, 7, "high", entry->high);
    put_number_member(w, 7, "error", entry->error);
    put_line(w, 7, 0);
    put(w, "\"samples\": [");
    for (size_t n = 0; n < entry->num_samples; n++) {
        if (n > 0)
            put(w, ", ");
        put_number(w, entry->samples[n]);
    }
    put(w, "]");
    put_text_member(w, 7, 0, "when", entry->when);
    put_text_member(w, 7, 0, "policy", entry->policy);
    put_text_member(w, 7, 0, "source", entry->source);
    put_text_member(w, 7, 0, "declaration", entry->declaration);
    put_line(w, 6, 1);
    put(w, "}");
}

static void put_class(struct writer *w, const struct ca_class *class)
{
    put(w, "{");
    put_text_member(w, 5, 1, "class", class->text);
    put_line(w, 5, 0);
    put(w, "\"entries\": [");
    for (size_t n = 0; n < class->num_entries; n++) {
        put_line(w, 6, n == 0);
        put_entry(w, &class->entries[n]);
    }
    put_end(w, 5, class->num_entries);
    put_line(w, 4, 1);
    put(w, "}");
}

static void put_banned(struct writer *w, const struct ca_banned *banned)
{
    put(w, "{");
    put_text_member(w, 5, 1, "class", banned->problem_class);
    put_text_member(w, 5, 0, "family", banned->family);
    put_text_member(w, 5, 0, "tunables", banned->tunables);
    put_text_member(w, 5, 0, "reason", banned->reason);
    put_text_member(w, 5, 0, "when", banned->when);
    put_text_member(w, 5, 0, "source", banned->source);
    put_text_member(w, 5, 0, "declaration", banned->declaration);
    put_line(w, 4, 1);
    put(w, "}");
}

static void put_device(struct writer *w, const struct ca_device_table *table)
{
    put(w, "{");
    put_text_member(w, 3, 1, "platform", table->platform);
    put_text_member(w, 3, 0, "platform_version", table->platform_version);
    put_text_member(w, 3, 0, "vendor", table->vendor);
    put_text_member(w, 3, 0, "device", table->device);
    put_text_member(w, 3, 0, "device_version", table->device_version);
    put_text_member(w, 3, 0, "driver", table->driver);
    put_line(w, 3, 0);
    put(w, "\"classes\": [");
    for (size_t n = 0; n < table->num_classes; n++) {
        put_line(w, 4, n == 0);
        put_class(w, &table->classes[n]);
    }
    put_end(w, 3, table->num_classes);
    put_line(w, 3, 0);
    put(w, "\"quarantine\": [");
    for (size_t n = 0; n < table->num_banned; n++) {
        put_line(w, 4, n == 0);
        put_banned(w, &table->banned[n]);
    }
    put_end(w, 3, table->num_banned);
    put_line(w, 2, 1);
    put(w, "}");
}

char *ca_table_print(const struct ca_table *table)
{
    struct writer w = {malloc(4096), 0, 4096};

    put(&w, "{\n \"format\": \"clattn-tuning\",\n \"version\": 1,\n \"devices\": [");
    for (size_t n = 0; n < table->num_devices; n++) {
        put_line(&w, 2, n == 0);
        put_device(&w, &table->devices[n]);
    }
    put_end(&w, 1, table->num_devices);
    put(&w, "\n}\n");
    return w.text;
}
