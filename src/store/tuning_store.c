/* SPDX-License-Identifier: Apache-2.0 */
#include "base/disk.h"
#include "base/text.h"
#include "context/context.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "program/program.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_file.h"
#include <clattn/tuning.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clattn_status clattn_tuning_path(const clattn_context *context, char *text, size_t text_bytes,
                                 size_t *needed)
{
    const int has_text = ca_text_begin(text, text_bytes, needed);

    if (!context)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "context is null");
    if (!has_text)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                       "text is null, but text_bytes is %zu", text_bytes);
    return ca_text_give(ca_store_path(context->store), text, text_bytes, needed);
}

/* Reads the problem and its class's text; without a problem the text is NULL. */
static clattn_status class_of(const clattn_context *ctx, const clattn_problem *problem,
                              struct ca_problem *made, char text[CA_CLASS_TEXT],
                              const char **problem_class)
{
    char reason[CA_REASON_BYTES];

    *problem_class = NULL;
    if (!problem)
        return CLATTN_SUCCESS;
    const clattn_status status = ca_problem_make(problem, made, reason, sizeof reason);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&ctx->log, status, "the problem is not sound: %s", reason);
    ca_problem_class(&made->normal, text);
    *problem_class = text;
    return CLATTN_SUCCESS;
}

/* Copies all that is known of the device, so that no lock is held while callers read it. Also finds
 * which of its tables is of this driver, or num_devices. */
static clattn_status copy_view(const clattn_context *ctx, struct ca_table *copy, size_t *own)
{
    const struct ca_view view = ca_store_lock(ctx->store);

    *copy = (struct ca_table){NULL, 0};
    *own = view.own ? (size_t)(view.own - view.table->devices) : view.table->num_devices;
    const int whole = view.status == CLATTN_SUCCESS && ca_table_merge(copy, view.table, NULL);
    ca_store_unlock(ctx->store);
    if (whole)
        return CLATTN_SUCCESS;
    ca_table_free(copy);
    return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for the tuning store");
}

/* ---- listing --------------------------------------------------------------------------------- */

/* An entry or a ban of the listing. */
struct item {
    const char *problem_class;
    const struct ca_entry *entry; /* NULL: a ban */
    const struct ca_banned *banned;
    int stale;
};

/* Orders by class; within one by entries before bans, fresh before stale ones, the fastest first.
 * */
static int order_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = strcmp(x->problem_class, y->problem_class);

    if (order == 0)
        order = (x->entry == NULL) - (y->entry == NULL);
    if (order == 0)
        order = x->stale - y->stale;
    if (order == 0)
        order =
            x->entry ? ca_entry_order(x->entry, y->entry) : ca_banned_order(x->banned, y->banned);
    return order;
}

static size_t count_items(const struct ca_table *table)
{
    size_t count = 0;

    for (size_t d = 0; d < table->num_devices; d++) {
        count += table->devices[d].num_banned;
        for (size_t n = 0; n < table->devices[d].num_classes; n++)
            count += table->devices[d].classes[n].num_entries;
    }
    return count;
}

static size_t add_items(const struct ca_device_table *table, int own, struct item *items)
{
    size_t count = 0;

    for (size_t n = 0; n < table->num_classes; n++) {
        const struct ca_class *class = &table->classes[n];
        for (size_t e = 0; e < class->num_entries; e++)
            items[count++] = (struct item){class->text, &class->entries[e], NULL,
                                           !own || !ca_entry_is_fresh(&class->entries[e])};
    }
    for (size_t n = 0; n < table->num_banned; n++) {
        const struct ca_banned *banned = &table->banned[n];
        const struct ca_entry like = {.family = banned->family,
                                      .tunables = banned->tunables,
                                      .source = banned->source,
                                      .declaration = banned->declaration};
        items[count++] =
            (struct item){banned->problem_class, NULL, banned, !own || !ca_entry_is_fresh(&like)};
    }
    return count;
}

static clattn_tuning_entry describe(const struct item *item, size_t rank)
{
    clattn_tuning_entry entry = {
        .struct_size = sizeof entry, .problem_class = item->problem_class, .stale = item->stale};

    if (item->entry) {
        entry.family = item->entry->family;
        entry.tunables = item->entry->tunables;
        entry.rank = rank;
        entry.seconds = item->entry->seconds;
        entry.low = item->entry->low;
        entry.high = item->entry->high;
        entry.samples = item->entry->samples;
        entry.num_samples = item->entry->num_samples;
        entry.error = item->entry->error;
        entry.when = item->entry->when;
        entry.policy = item->entry->policy;
    } else {
        entry.family = item->banned->family;
        entry.tunables = item->banned->tunables;
        entry.quarantine = item->banned->reason;
        entry.when = item->banned->when;
        entry.policy = "";
    }
    return entry;
}

/* Returns whether a class (NULL: any) has known results: bans on problems like it count as well. */
static int is_of(const struct item *item, const char *problem_class)
{
    clattn_problem p;

    if (!problem_class || strcmp(item->problem_class, problem_class) == 0)
        return 1;
    return item->banned && clattn_problem_parse(problem_class, &p, NULL, 0) == CLATTN_SUCCESS &&
           ca_banned_for(item->banned, &p);
}

static void visit(const struct item *items, size_t count, const char *problem_class,
                  clattn_tuning_visitor visitor, void *user_data)
{
    size_t rank = 0;

    for (size_t n = 0; n < count; n++) {
        if (n == 0 || strcmp(items[n].problem_class, items[n - 1].problem_class) != 0)
            rank = 0;
        if (!is_of(&items[n], problem_class))
            continue;
        const clattn_tuning_entry entry = describe(&items[n], rank++);
        if (visitor(&entry, user_data))
            return;
    }
}

clattn_status clattn_tuning_list(const clattn_context *context, const clattn_problem *problem,
                                 clattn_tuning_visitor visitor, void *user_data)
{
    char text[CA_CLASS_TEXT];
    const char *problem_class;
    struct ca_problem made;
    struct ca_table table;
    size_t own, count = 0;

    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!visitor)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "the visitor must not be null");
    clattn_status status = class_of(context, problem, &made, text, &problem_class);
    if (status != CLATTN_SUCCESS)
        return status;
    status = copy_view(context, &table, &own);
    if (status != CLATTN_SUCCESS)
        return status;
    struct item *items = malloc((count_items(&table) + 1) * sizeof *items);
    if (items) {
        for (size_t d = 0; d < table.num_devices; d++)
            count += add_items(&table.devices[d], d == own, items + count);
        qsort(items, count, sizeof *items, order_items);
        visit(items, count, problem_class, visitor, user_data);
    } else {
        status = ca_fail(&context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a listing");
    }
    free(items);
    ca_table_free(&table);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes straight into what is no regular file, such as /dev/stdout: it must not be replaced. */
static int write_through(const char *path, const char *text)
{
    FILE *file = ca_stream_open(path, "w");

    if (!file)
        return 0;
    const int written = fputs(text, file) >= 0 && fflush(file) == 0;
    return (fclose(file) == 0) & written;
}

/* Replaces a file, which others may read if they could read the one before or any new file. */
static int write_document(const char *path, const char *text)
{
    struct ca_file_facts old;

    if (ca_file_follow(path, &old) && old.kind != CA_FILE_REGULAR)
        return write_through(path, text);
    return ca_disk_write(path, text, strlen(text), "", 0, CA_DISK_DURABLE | CA_DISK_SHARED);
}

/* CLATTN_FILE_ERROR and CLATTN_OUT_OF_MEMORY come with the reason. */
static clattn_status read_document(const char *path, struct ca_table *table, char *reason,
                                   size_t reason_bytes)
{
    char why[CA_REASON_BYTES], *text;
    size_t bytes;

    *table = (struct ca_table){NULL, 0};
    clattn_status status = ca_document_load(path, &text, &bytes, why, sizeof why);
    if (status == CLATTN_SUCCESS)
        status = ca_table_read(text, bytes, table, why, sizeof why);
    free(text);
    if (status != CLATTN_SUCCESS)
        ca_reason(reason, reason_bytes, "%.600s: %s", path, why);
    return status;
}

clattn_status clattn_tuning_export(const clattn_context *context, const char *path)
{
    struct ca_table table;
    size_t own;

    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!path)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "the path must not be null");
    clattn_status status = copy_view(context, &table, &own);
    if (status != CLATTN_SUCCESS)
        return status;
    const size_t items = count_items(&table);
    char *text = items > 0 ? ca_table_print(&table) : NULL;
    ca_table_free(&table);
    if (items == 0)
        return ca_fail(&context->log, CLATTN_NOT_TUNED,
                       "the tuning store holds nothing for '%s', so there is nothing to export",
                       context->device.name);
    if (!text)
        return ca_fail(&context->log, CLATTN_OUT_OF_MEMORY, "no host memory for an export");
    if (!write_document(path, text))
        status = ca_fail(&context->log, CLATTN_FILE_ERROR, "%.900s cannot be written", path);
    free(text);
    return status;
}

clattn_status clattn_tuning_import(clattn_context *context, const char *path, size_t *taken)
{
    char reason[CA_LOG_BYTES];
    struct ca_table table;
    size_t added;

    if (taken)
        *taken = 0;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!path)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "the path must not be null");
    clattn_status status = read_document(path, &table, reason, sizeof reason);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    status = ca_store_merge(context->store, &table, &added);
    ca_table_free(&table);
    if (taken)
        *taken = added;
    return status;
}

/* Reads and merges; the result is as text, which can be read again. */
static clattn_status merge_files(const char *const *paths, size_t count, char **text, char *reason,
                                 size_t reason_bytes)
{
    struct ca_table all = {NULL, 0}, table;
    clattn_status status = CLATTN_SUCCESS;
    int whole = 1;

    *text = NULL;
    for (size_t n = 0; status == CLATTN_SUCCESS && whole && n < count; n++) {
        status = read_document(paths[n], &table, reason, reason_bytes);
        whole = ca_table_merge(&all, &table, NULL);
        ca_table_free(&table);
    }
    if (status == CLATTN_SUCCESS && whole)
        *text = ca_table_print(&all);
    ca_table_free(&all);
    if (status == CLATTN_SUCCESS && !*text) {
        ca_reason(reason, reason_bytes, "there is no host memory to merge them");
        return CLATTN_OUT_OF_MEMORY;
    }
    if (*text) {
        char why[CA_REASON_BYTES];
        status = ca_table_read(*text, strlen(*text), &table, why, sizeof why);
        if (status != CLATTN_SUCCESS)
            ca_reason(reason, reason_bytes, "the union could not be read again: %s", why);
        ca_table_free(&table);
    }
    return status;
}

static clattn_status merge(const char *const *paths, size_t count, const char *to, char *reason,
                           size_t reason_bytes)
{
    char *text = NULL;

    ca_reason(reason, reason_bytes, "%s", "");
    for (size_t n = 0; paths && n < count; n++)
        if (!paths[n])
            paths = NULL;
    if (!paths || count == 0 || !to) {
        ca_reason(reason, reason_bytes, "there are no files to merge, or none to merge them to");
        return CLATTN_INVALID_ARGUMENT;
    }
    clattn_status status = merge_files(paths, count, &text, reason, reason_bytes);
    if (status == CLATTN_SUCCESS && !write_document(to, text)) {
        ca_reason(reason, reason_bytes, "%.600s cannot be written", to);
        status = CLATTN_FILE_ERROR;
    }
    free(text);
    return status;
}

clattn_status clattn_tuning_merge(const char *const *paths, size_t count, const char *to,
                                  char *reason, size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(merge(paths, count, to, why, sizeof why), why, reason, reason_bytes);
}

clattn_status clattn_tuning_forget(clattn_context *context, const clattn_problem *problem,
                                   size_t *removed)
{
    char text[CA_CLASS_TEXT];
    const char *problem_class;
    struct ca_problem made;
    size_t count = 0, programs = 0;

    if (removed)
        *removed = 0;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    clattn_status status = class_of(context, problem, &made, text, &problem_class);
    if (status != CLATTN_SUCCESS)
        return status;
    status = ca_store_forget(context->store, problem_class, &count);
    if (status == CLATTN_SUCCESS) {
        status = ca_programs_forget_verdicts(context, problem ? &made : NULL, &programs);
        if (status != CLATTN_SUCCESS)
            ca_fail(&context->log, status,
                    "no memory or open files to forget what the cache directory holds against "
                    "programs");
    }
    if (removed)
        *removed = count + programs;
    return status;
}
