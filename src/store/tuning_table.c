/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tuning_table.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the objects are made of ------------------------------------------------------------ */

#define TEXT(type, member, key) key, CA_JSON_TEXT, offsetof(struct type, member), CA_TABLE_SENTENCE
#define NUMBER(type, member, key) key, CA_JSON_NUMBER, offsetof(struct type, member), 0

static const struct ca_json_field entry_fields[] = {
    {TEXT(ca_entry, family, "family")},     {TEXT(ca_entry, tunables, "tunables")},
    {NUMBER(ca_entry, seconds, "seconds")}, {NUMBER(ca_entry, low, "low")},
    {NUMBER(ca_entry, high, "high")},       {NUMBER(ca_entry, error, "error")},
    {TEXT(ca_entry, when, "when")},         {TEXT(ca_entry, policy, "policy")},
    {TEXT(ca_entry, source, "source")},     {TEXT(ca_entry, declaration, "declaration")},
};

static const struct ca_json_field class_fields[] = {{TEXT(ca_class, text, "class")}};

static const struct ca_json_field banned_fields[] = {
    {TEXT(ca_banned, problem_class, "class")},
    {TEXT(ca_banned, family, "family")},
    {TEXT(ca_banned, tunables, "tunables")},
    {TEXT(ca_banned, reason, "reason")},
    {TEXT(ca_banned, when, "when")},
    {TEXT(ca_banned, source, "source")},
    {TEXT(ca_banned, declaration, "declaration")},
};

static const struct ca_json_field device_fields[] = {
    {TEXT(ca_device_table, platform, "platform")},
    {TEXT(ca_device_table, platform_version, "platform_version")},
    {TEXT(ca_device_table, vendor, "vendor")},
    {TEXT(ca_device_table, device, "device")},
    {TEXT(ca_device_table, device_version, "device_version")},
    {TEXT(ca_device_table, driver, "driver")},
};

const struct ca_fields ca_entry_fields = {entry_fields, sizeof entry_fields / sizeof *entry_fields},
                       ca_class_fields = {class_fields, 1},
                       ca_banned_fields = {banned_fields,
                                           sizeof banned_fields / sizeof *banned_fields},
                       ca_device_fields = {device_fields,
                                           sizeof device_fields / sizeof *device_fields};

static void free_texts(const struct ca_fields *fields, void *object)
{
    for (size_t n = 0; n < fields->count; n++)
        if (fields->list[n].kind == CA_JSON_TEXT)
            free(*ca_field_text(&fields->list[n], object));
}

/* Copies the texts that a bitwise copy shares with the original. Returns false without memory; the caller frees the texts
 * then, too. */
static int copy_texts(const struct ca_fields *fields, void *object)
{
    int whole = 1;

    for (size_t n = 0; n < fields->count; n++) {
        if (fields->list[n].kind != CA_JSON_TEXT)
            continue;
        char **text = ca_field_text(&fields->list[n], object);
        *text = ca_text_copy(*text);
        whole &= *text != NULL;
    }
    return whole;
}

static int order_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* Compares all members of one kind. */
static int order_fields(const struct ca_fields *fields, enum ca_json_kind kind, const void *a,
                        const void *b)
{
    int order = 0;

    for (size_t n = 0; order == 0 && n < fields->count; n++) {
        const struct ca_json_field *field = &fields->list[n];
        if (field->kind != kind)
            continue;
        if (kind == CA_JSON_TEXT)
            order = strcmp(*ca_field_text(field, a), *ca_field_text(field, b));
        else
            order = order_numbers(ca_field_number(field, a), ca_field_number(field, b));
    }
    return order;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static char clean(char c)
{
    return c >= 0x20 && c <= 0x7e ? c : '?';
}

char *ca_text_clean(const char *text, size_t text_bytes)
{
    size_t length = strlen(text);
    char *copy;

    if (length >= text_bytes)
        length = text_bytes - 1;
    copy = malloc(length + 1);
    if (!copy)
        return NULL;
    for (size_t n = 0; n < length; n++)
        copy[n] = clean(text[n]);
    copy[length] = '\0';
    return copy;
}

/* Returns whether a text is what ca_text_clean() made of another one. */
static int is_clean_of(const char *text, const char *raw)
{
    while (*text && *raw && *text == clean(*raw)) {
        text++;
        raw++;
    }
    return *text == '\0' && *raw == '\0';
}

/* ---- entries and bans ------------------------------------------------------------------------ */

void ca_entry_free(struct ca_entry *entry)
{
    free_texts(&ca_entry_fields, entry);
    free(entry->samples);
    memset(entry, 0, sizeof *entry);
}

/* Deep copies; false without memory, and then nothing is held. */
static int copy_entry(struct ca_entry *to, const struct ca_entry *from)
{
    const size_t bytes = from->num_samples * sizeof *to->samples;

    *to = *from;
    to->samples = malloc(bytes ? bytes : 1);
    if (copy_texts(&ca_entry_fields, to) & (to->samples != NULL)) {
        if (bytes)
            memcpy(to->samples, from->samples, bytes);
        return 1;
    }
    ca_entry_free(to);
    return 0;
}

void ca_banned_free(struct ca_banned *banned)
{
    free_texts(&ca_banned_fields, banned);
    memset(banned, 0, sizeof *banned);
}

static int copy_banned(struct ca_banned *to, const struct ca_banned *from)
{
    *to = *from;
    if (copy_texts(&ca_banned_fields, to))
        return 1;
    ca_banned_free(to);
    return 0;
}

/* ---- orders ---------------------------------------------------------------------------------- */

int ca_entry_order(const void *a, const void *b)
{
    const struct ca_entry *x = a, *y = b;
    int order = order_fields(&ca_entry_fields, CA_JSON_NUMBER, x, y);

    if (order == 0)
        order = order_fields(&ca_entry_fields, CA_JSON_TEXT, x, y);
    for (size_t n = 0; order == 0 && n < x->num_samples && n < y->num_samples; n++)
        order = order_numbers(x->samples[n], y->samples[n]);
    return order ? order : (x->num_samples > y->num_samples) - (x->num_samples < y->num_samples);
}

int ca_class_order(const void *a, const void *b)
{
    return order_fields(&ca_class_fields, CA_JSON_TEXT, a, b);
}

int ca_banned_order(const void *a, const void *b)
{
    const struct ca_banned *x = a, *y = b;
    const char *const texts[][2] = {
        {x->problem_class, y->problem_class}, {x->family, y->family},
        {x->tunables, y->tunables},           {x->source, y->source},
        {x->declaration, y->declaration},
    };
    int order = 0;

    for (size_t n = 0; order == 0 && n < sizeof texts / sizeof *texts; n++)
        order = strcmp(texts[n][0], texts[n][1]);
    return order;
}

int ca_device_table_order(const void *a, const void *b)
{
    return order_fields(&ca_device_fields, CA_JSON_TEXT, a, b);
}

/* ---- sorted arrays --------------------------------------------------------------------------- */

static void *find(const void *array, size_t count, const void *key, size_t bytes,
                  int (*order)(const void *, const void *))
{
    return count ? bsearch(key, array, count, bytes, order) : NULL;
}

/* Inserts an element before those that come after it by the order. Returns the array that replaces the one
 * given, and where it is; NULL without memory, and then nothing has changed. */
static void *insert(void *array, size_t count, const void *element, size_t bytes,
                    int (*order)(const void *, const void *), size_t *at)
{
    char *grown = realloc(array, (count + 1) * bytes);
    size_t n = count;

    if (!grown)
        return NULL;
    while (n > 0 && order(grown + (n - 1) * bytes, element) > 0)
        n--;
    memmove(grown + (n + 1) * bytes, grown + n * bytes, (count - n) * bytes);
    memcpy(grown + n * bytes, element, bytes);
    *at = n;
    return grown;
}

/* ---- classes --------------------------------------------------------------------------------- */

void ca_class_free(struct ca_class *class)
{
    for (size_t n = 0; n < class->num_entries; n++)
        ca_entry_free(&class->entries[n]);
    free(class->entries);
    free_texts(&ca_class_fields, class);
    memset(class, 0, sizeof *class);
}

static int is_same(const struct ca_entry *a, const struct ca_entry *b)
{
    return strcmp(a->tunables, b->tunables) == 0 && strcmp(a->family, b->family) == 0 &&
           strcmp(a->source, b->source) == 0 && strcmp(a->declaration, b->declaration) == 0;
}

size_t ca_class_find(const struct ca_class *class, const struct ca_entry *entry)
{
    size_t n = 0;

    while (n < class->num_entries && !is_same(&class->entries[n], entry))
        n++;
    return n;
}

int ca_class_put(struct ca_class *class, const struct ca_entry *entry)
{
    const size_t count = class->num_entries;
    size_t at = ca_class_find(class, entry);
    struct ca_entry copy;

    if (!copy_entry(&copy, entry))
        return 0;
    if (at < count) {
        ca_entry_free(&class->entries[at]);
        class->entries[at] = copy;
        qsort(class->entries, count, sizeof copy, ca_entry_order);
        return 1;
    }
    struct ca_entry *entries =
        insert(class->entries, count, &copy, sizeof copy, ca_entry_order, &at);
    if (!entries) {
        ca_entry_free(&copy);
        return 0;
    }
    class->entries = entries;
    class->num_entries++;
    return 1;
}

/* ---- tables of devices ----------------------------------------------------------------------- */

static void free_device(struct ca_device_table *table)
{
    for (size_t n = 0; n < table->num_classes; n++)
        ca_class_free(&table->classes[n]);
    for (size_t n = 0; n < table->num_banned; n++)
        ca_banned_free(&table->banned[n]);
    free(table->classes);
    free(table->banned);
    free_texts(&ca_device_fields, table);
}

const struct ca_class *ca_device_table_class(const struct ca_device_table *table,
                                             const char *problem_class)
{
    const struct ca_class key = {.text = (char *)problem_class}; /* the key is only read */

    return find(table->classes, table->num_classes, &key, sizeof key, ca_class_order);
}

struct ca_class *ca_device_table_make_class(struct ca_device_table *table,
                                            const char *problem_class)
{
    const struct ca_class *there = ca_device_table_class(table, problem_class);
    size_t at;

    if (there)
        return &table->classes[there - table->classes];
    const struct ca_class made = {.text = ca_text_copy(problem_class)};
    struct ca_class *classes = made.text ? insert(table->classes, table->num_classes, &made,
                                                  sizeof made, ca_class_order, &at)
                                         : NULL;
    if (!classes) {
        free(made.text);
        return NULL;
    }
    table->classes = classes;
    table->num_classes++;
    return &classes[at];
}

struct ca_banned *ca_device_table_banned(const struct ca_device_table *table,
                                         const struct ca_banned *banned)
{
    return find(table->banned, table->num_banned, banned, sizeof *banned, ca_banned_order);
}

int ca_device_table_ban(struct ca_device_table *table, const struct ca_banned *banned)
{
    struct ca_banned copy, *there = ca_device_table_banned(table, banned);
    size_t at;

    if (!copy_banned(&copy, banned))
        return 0;
    if (there) {
        ca_banned_free(there);
        *there = copy;
        return 1;
    }
    struct ca_banned *all =
        insert(table->banned, table->num_banned, &copy, sizeof copy, ca_banned_order, &at);
    if (!all) {
        ca_banned_free(&copy);
        return 0;
    }
    table->banned = all;
    table->num_banned++;
    return 1;
}

int ca_device_table_is(const struct ca_device_table *table, const clattn_device_info *dev)
{
    return is_clean_of(table->device, dev->name) && is_clean_of(table->vendor, dev->vendor) &&
           is_clean_of(table->platform, dev->platform_name);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void ca_table_free(struct ca_table *table)
{
    for (size_t n = 0; n < table->num_devices; n++)
        free_device(&table->devices[n]);
    free(table->devices);
    memset(table, 0, sizeof *table);
}

struct ca_device_table *ca_table_find(const struct ca_table *table,
                                      const struct ca_device_table *like)
{
    return find(table->devices, table->num_devices, like, sizeof *like, ca_device_table_order);
}

struct ca_device_table *ca_table_make_device(struct ca_table *table,
                                             const struct ca_device_table *like)
{
    struct ca_device_table made = {.platform = NULL}, *there = ca_table_find(table, like);
    int whole = 1;
    size_t at;

    if (there)
        return there;
    for (size_t n = 0; n < ca_device_fields.count; n++) {
        const struct ca_json_field *field = &ca_device_fields.list[n];
        char **text = ca_field_text(field, &made);
        *text = ca_text_clean(*ca_field_text(field, like), CA_TABLE_LINE);
        whole &= *text != NULL;
    }
    struct ca_device_table *devices = whole ? insert(table->devices, table->num_devices, &made,
                                                     sizeof made, ca_device_table_order, &at)
                                            : NULL;
    if (!devices) {
        free_device(&made);
        return NULL;
    }
    table->devices = devices;
    table->num_devices++;
    return &devices[at];
}

struct ca_device_table *ca_table_device(struct ca_table *table, const clattn_device_info *dev,
                                        int make)
{
    const struct ca_device_table raw = {
        .platform = (char *)dev->platform_name, /* these are only read */
        .platform_version = (char *)dev->platform_version,
        .vendor = (char *)dev->vendor,
        .device = (char *)dev->name,
        .device_version = (char *)dev->device_version,
        .driver = (char *)dev->driver_version,
    };

    for (size_t n = 0; n < table->num_devices; n++) {
        struct ca_device_table *found = &table->devices[n];
        int same = 1;
        for (size_t f = 0; same && f < ca_device_fields.count; f++)
            same = is_clean_of(*ca_field_text(&ca_device_fields.list[f], found),
                               *ca_field_text(&ca_device_fields.list[f], &raw));
        if (same)
            return found;
    }
    return make ? ca_table_make_device(table, &raw) : NULL;
}
