/* SPDX-License-Identifier: Apache-2.0 */
/* The union of two documents. Entries and bans of one thing are told apart by a total order, so the
 * result depends neither on the order of the documents nor on how often one is merged. */
#include "store/tuning_table.h"

#include <string.h>

/* Returns whether a, of two entries for one configuration, is kept: the one with more samples, else
 * the newer one, else the first in the total order. */
static int is_better(const struct ca_entry *a, const struct ca_entry *b)
{
    if (a->num_samples != b->num_samples)
        return a->num_samples > b->num_samples;
    const int order = strcmp(a->when, b->when);
    return order ? order > 0 : ca_entry_order(a, b) < 0;
}

/* Returns whether a, of two bans of one configuration, is kept: the older one, whose reason says
 * how the failure was found. */
static int is_earlier(const struct ca_banned *a, const struct ca_banned *b)
{
    const int order = strcmp(a->when, b->when);

    return order ? order < 0 : strcmp(a->reason, b->reason) < 0;
}

static int merge_class(struct ca_class *to, const struct ca_class *from, size_t *added)
{
    for (size_t n = 0; n < from->num_entries; n++) {
        const struct ca_entry *entry = &from->entries[n];
        const size_t there = ca_class_find(to, entry);
        const int is_new = there == to->num_entries;
        if (!is_new && !is_better(entry, &to->entries[there]))
            continue;
        if (!ca_class_put(to, entry))
            return 0;
        *added += (size_t)is_new;
    }
    return 1;
}

static int merge_classes(struct ca_device_table *to, const struct ca_device_table *from,
                         size_t *added)
{
    int merged = 1;

    for (size_t n = 0; merged && n < from->num_classes; n++) {
        struct ca_class *class = ca_device_table_make_class(to, from->classes[n].text);
        merged = class && merge_class(class, &from->classes[n], added);
    }
    return merged;
}

static int merge_banned(struct ca_device_table *to, const struct ca_device_table *from,
                        size_t *added)
{
    for (size_t n = 0; n < from->num_banned; n++) {
        const struct ca_banned *banned = &from->banned[n],
                               *there = ca_device_table_banned(to, banned);
        if (there && !is_earlier(banned, there))
            continue;
        *added += there == NULL;
        if (!ca_device_table_ban(to, banned))
            return 0;
    }
    return 1;
}

int ca_device_table_merge(struct ca_table *to, const struct ca_device_table *from, size_t *added)
{
    struct ca_device_table *table = ca_table_make_device(to, from);

    return table && merge_classes(table, from, added) && merge_banned(table, from, added);
}

int ca_table_merge(struct ca_table *to, const struct ca_table *from, size_t *added)
{
    size_t count = 0;
    int merged = 1;

    for (size_t n = 0; merged && n < from->num_devices; n++)
        merged = ca_device_table_merge(to, &from->devices[n], &count);
    if (added)
        *added = count;
    return merged;
}
