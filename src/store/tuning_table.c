/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tuning_table.h"

#include <stdlib.h>
#include <string.h>

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

/* Whether a text is what ca_text_clean() made of another one. */
static int is_clean_of(const char *text, const char *raw)
{
    while (*text && *raw && *text == clean(*raw)) {
        text++;
        raw++;
    }
    return *text == '\0' && *raw == '\0';
}

static char *copy_text(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- entries and bans ------------------------------------------------------------------------ */

void ca_entry_free(struct ca_entry *entry)
{
    free(entry->family);
    free(entry->tunables);
    free(entry->source);
    free(entry->declaration);
    free(entry->samples);
    free(entry->when);
    free(entry->policy);
    memset(entry, 0, sizeof *entry);
}

int ca_entry_copy(struct ca_entry *to, const struct ca_entry *from)
{
    *to = *from;
    to->family = copy_text(from->family);
    to->tunables = copy_text(from->tunables);
    to->source = copy_text(from->source);
    to->declaration = copy_text(from->declaration);
    to->when = copy_text(from->when);
    to->policy = copy_text(from->policy);
    to->samples = malloc((from->num_samples ? from->num_samples : 1) * sizeof *to->samples);
    if (to->family && to->tunables && to->source && to->declaration && to->when && to->policy &&
        to->samples) {
        if (from->num_samples)
            memcpy(to->samples, from->samples, from->num_samples * sizeof *to->samples);
        return 1;
    }
    ca_entry_free(to);
    return 0;
}

void ca_banned_free(struct ca_banned *banned)
{
    free(banned->problem_class);
    free(banned->family);
    free(banned->tunables);
    free(banned->source);
    free(banned->declaration);
    free(banned->reason);
    free(banned->when);
    memset(banned, 0, sizeof *banned);
}

int ca_banned_copy(struct ca_banned *to, const struct ca_banned *from)
{
    to->problem_class = copy_text(from->problem_class);
    to->family = copy_text(from->family);
    to->tunables = copy_text(from->tunables);
    to->source = copy_text(from->source);
    to->declaration = copy_text(from->declaration);
    to->reason = copy_text(from->reason);
    to->when = copy_text(from->when);
    if (to->problem_class && to->family && to->tunables && to->source && to->declaration &&
        to->reason && to->when)
        return 1;
    ca_banned_free(to);
    return 0;
}

int ca_entries_same(const struct ca_entry *a, const struct ca_entry *b)
{
    return strcmp(a->tunables, b->tunables) == 0 && strcmp(a->family, b->family) == 0 &&
           strcmp(a->source, b->source) == 0 && strcmp(a->declaration, b->declaration) == 0;
}

/* ---- orders ---------------------------------------------------------------------------------- */

static int order_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

int ca_entry_order(const void *a, const void *b)
{
    const struct ca_entry *x = a, *y = b;
    int order = order_numbers(x->seconds, y->seconds);

    if (order == 0)
        order = order_numbers(x->low, y->low);
    if (order == 0)
        order = order_numbers(x->high, y->high);
    if (order == 0)
        order = order_numbers(x->error, y->error);
    const char *const texts[][2] = {
        {x->family, y->family},           {x->tunables, y->tunables}, {x->source, y->source},
        {x->declaration, y->declaration}, {x->when, y->when},         {x->policy, y->policy},
    };
    for (size_t n = 0; order == 0 && n < sizeof texts / sizeof *texts; n++)
        order = strcmp(texts[n][0], texts[n][1]);
    for (size_t n = 0; order == 0 && n < x->num_samples && n < y->num_samples; n++)
        order = order_numbers(x->samples[n], y->samples[n]);
    return order ? order : (x->num_samples > y->num_samples) - (x->num_samples < y->num_samples);
}

int ca_class_order(const void *a, const void *b)
{
    return strcmp(((const struct ca_class *)a)->text, ((const struct ca_class *)b)->text);
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
    const struct ca_device_table *x = a, *y = b;
    const char *const texts[][2] = {
        {x->platform, y->platform}, {x->platform_version, y->platform_version},
        {x->vendor, y->vendor},     {x->device, y->device},
        {x->driver, y->driver},     {x->device_version, y->device_version},
    };
    int order = 0;

    for (size_t n = 0; order == 0 && n < sizeof texts / sizeof *texts; n++)
        order = strcmp(texts[n][0], texts[n][1]);
    return order;
}

/* ---- tables ---------------------------------------------------------------------------------- */

void ca_class_free(struct ca_class *class)
{
    for (size_t n = 0; n < class->num_entries; n++)
        ca_entry_free(&class->entries[n]);
    free(class->entries);
    free(class->text);
    memset(class, 0, sizeof *class);
}

void ca_device_table_free(struct ca_device_table *table)
{
    for (size_t n = 0; n < table->num_classes; n++)
        ca_class_free(&table->classes[n]);
    for (size_t n = 0; n < table->num_banned; n++)
        ca_banned_free(&table->banned[n]);
    free(table->classes);
    free(table->banned);
    free(table->platform);
    free(table->platform_version);
    free(table->vendor);
    free(table->device);
    free(table->device_version);
    free(table->driver);
    memset(table, 0, sizeof *table);
}

void ca_table_free(struct ca_table *table)
{
    for (size_t n = 0; n < table->num_devices; n++)
        ca_device_table_free(&table->devices[n]);
    free(table->devices);
    memset(table, 0, sizeof *table);
}

void *ca_array_grow(void **array, size_t count, size_t element_bytes)
{
    char *grown = realloc(*array, (count + 1) * element_bytes);

    if (!grown)
        return NULL;
    *array = grown;
    return memset(grown + count * element_bytes, 0, element_bytes);
}

const struct ca_class *ca_device_table_class(const struct ca_device_table *table,
                                             const char *problem_class)
{
    const struct ca_class key = {.text = (char *)problem_class}; /* only read */

    return table->num_classes
               ? bsearch(&key, table->classes, table->num_classes, sizeof key, ca_class_order)
               : NULL;
}

struct ca_class *ca_device_table_make_class(struct ca_device_table *table,
                                            const char *problem_class)
{
    const struct ca_class *there = ca_device_table_class(table, problem_class);
    void *classes = table->classes;
    size_t n = table->num_classes;

    if (there)
        return &table->classes[there - table->classes];
    struct ca_class made = {.text = copy_text(problem_class)};
    if (!made.text || !ca_array_grow(&classes, n, sizeof made)) {
        free(made.text);
        return NULL;
    }
    table->classes = classes;
    for (; n > 0 && strcmp(table->classes[n - 1].text, made.text) > 0; n--)
        table->classes[n] = table->classes[n - 1];
    table->classes[n] = made;
    table->num_classes++;
    return &table->classes[n];
}

int ca_device_table_is(const struct ca_device_table *table, const clattn_device_info *dev)
{
    return is_clean_of(table->device, dev->name) && is_clean_of(table->vendor, dev->vendor) &&
           is_clean_of(table->platform, dev->platform_name);
}

/* Copies the texts that say which device it is; false without memory, and then nothing is held. */
static int copy_device(struct ca_device_table *to, const struct ca_device_table *from)
{
    const struct ca_device_table made = {
        .platform = ca_text_clean(from->platform, CA_TABLE_LINE),
        .platform_version = ca_text_clean(from->platform_version, CA_TABLE_LINE),
        .vendor = ca_text_clean(from->vendor, CA_TABLE_LINE),
        .device = ca_text_clean(from->device, CA_TABLE_LINE),
        .device_version = ca_text_clean(from->device_version, CA_TABLE_LINE),
        .driver = ca_text_clean(from->driver, CA_TABLE_LINE),
    };

    *to = made;
    if (made.platform && made.platform_version && made.vendor && made.device &&
        made.device_version && made.driver)
        return 1;
    ca_device_table_free(to);
    return 0;
}

struct ca_device_table *ca_table_make_device(struct ca_table *table,
                                             const struct ca_device_table *like)
{
    struct ca_device_table made, *there = table->num_devices
                                              ? bsearch(like, table->devices, table->num_devices,
                                                        sizeof made, ca_device_table_order)
                                              : NULL;
    void *devices = table->devices;
    size_t n = table->num_devices;

    if (there || !copy_device(&made, like))
        return there;
    if (!ca_array_grow(&devices, n, sizeof made)) {
        ca_device_table_free(&made);
        return NULL;
    }
    table->devices = devices;
    for (; n > 0 && ca_device_table_order(&table->devices[n - 1], &made) > 0; n--)
        table->devices[n] = table->devices[n - 1];
    table->devices[n] = made;
    table->num_devices++;
    return &table->devices[n];
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
    struct ca_device_table like, *found;

    for (size_t n = 0; n < table->num_devices; n++) {
        found = &table->devices[n];
        if (ca_device_table_is(found, dev) && is_clean_of(found->driver, raw.driver) &&
            is_clean_of(found->platform_version, raw.platform_version) &&
            is_clean_of(found->device_version, raw.device_version))
            return found;
    }
    if (!make || !copy_device(&like, &raw))
        return NULL;
    found = ca_table_make_device(table, &like);
    ca_device_table_free(&like);
    return found;
}
