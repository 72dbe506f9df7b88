/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/items.h"
#include "bench/cases/case_file.h"
#include "cli/problems/problem_file.h"
#include "cli/problems/workloads.h"
#include "cli/terminal/table.h"
#include "internal.h"
#include "os/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_item(struct items *items, const struct item *item, struct message *why)
{
    struct item *grown = realloc(items->item, (items->count + 1) * sizeof *grown);

    if (grown == NULL)
        return message_set(why, "no memory for the list of problems");
    items->item = grown;
    grown[items->count++] = *item;
    return true;
}

static bool add_tensors(struct items *items, const char *path, struct message *why)
{
    struct safetensors file;

    if (!safetensors_read(&file, path, why))
        return false;
    const size_t count = case_file_count(&file);
    safetensors_free(&file);
    for (size_t n = 0; n == 0 || n < count; n++) /* without an answer: fails with the reason */
        if (!add_item(items, &(struct item){.path = path, .index = n}, why))
            return false;
    return true;
}

static bool add_workload(struct items *items, const struct workload *workload, struct message *why)
{
    for (size_t n = 0; workload->problems[n] != NULL; n++) {
        struct item item = {.heading = workload_origin(workload, n)->name};
        char reason[256];
        if (!job_parse(workload->problems[n], &item.job, reason, sizeof reason))
            return message_set(why, "workload %s: %s", workload->name, reason);
        if (!add_item(items, &item, why))
            return false;
    }
    return true;
}

/* A copy that lives as long as the items. */
static const char *keep_name(struct items *items, const char *name, struct message *why)
{
    char **grown = realloc(items->names, (items->num_names + 1) * sizeof *grown);
    char *copy = grown != NULL ? malloc(strlen(name) + 1) : NULL;

    if (grown != NULL)
        items->names = grown;
    if (copy == NULL) {
        message_set(why, "no memory for the list of problems");
        return NULL;
    }
    return items->names[items->num_names++] = strcpy(copy, name);
}

/* Lines without a name are named after the file. */
static bool add_lines(struct items *items, const char *path, const struct problem_file *file,
                      struct message *why)
{
    const char *base = ca_path_name(path);

    for (size_t n = 0; n < file->count; n++) {
        const struct problem_line *line = &file->line[n];
        struct item item = {.job = line->job};
        const bool named = n == 0 || strcmp(line->name, file->line[n - 1].name) != 0;
        char name[64];
        snprintf(name, sizeof name, "%s", line->name[0] != '\0' ? line->name : base);
        ca_make_printable(name);
        if (named && (item.heading = keep_name(items, name, why)) == NULL)
            return false;
        if (!add_item(items, &item, why))
            return false;
    }
    return true;
}

static bool add_problem_file(struct items *items, const char *path, struct message *why)
{
    struct problem_file file;
    const bool ok = problem_file_read(&file, path, why) && add_lines(items, path, &file, why);

    problem_file_free(&file);
    return ok;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool exists(const char *path)
{
    FILE *file = ca_stream_open(path, "r");

    if (file != NULL)
        fclose(file);
    return file != NULL || errno == EACCES;
}

static bool add_argument(struct items *items, const char *argument, struct message *why)
{
    const struct workload *workload = workload_find(argument);
    struct item item = {.heading = ""};
    char reason[256];

    if (workload != NULL)
        return add_workload(items, workload, why);
    if (ends_with(argument, ".safetensors"))
        return add_tensors(items, argument, why);
    if (job_parse(argument, &item.job, reason, sizeof reason))
        return add_item(items, &item, why);
    if (exists(argument))
        return add_problem_file(items, argument, why);
    return message_set(why, "'%s' is no workload (--list names them), no file and no problem: %s",
                       argument, reason);
}

bool items_read(struct items *items, int count, const char *const *arguments, struct message *why)
{
    *items = (struct items){.item = NULL};
    for (int n = 0; n < count; n++)
        if (!add_argument(items, arguments[n], why))
            return false;
    return true;
}

void items_free(struct items *items)
{
    for (size_t n = 0; n < items->num_names; n++)
        free(items->names[n]);
    free(items->names);
    free(items->item);
    memset(items, 0, sizeof *items);
}

bool item_load(const struct item *item, struct attention_case *attention, struct message *why)
{
    struct safetensors file;

    if (item->path == NULL)
        return case_random(attention, &item->job, 1, why);
    if (!safetensors_read(&file, item->path, why))
        return false;
    const bool ok = case_file_read(attention, &file, item->path, item->index, why);
    safetensors_free(&file);
    return ok;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_workload(const struct workload *workload)
{
    ca_print_wrapped(stdout, 2, "%s: %s", workload->name, workload->meaning);
    if (workload->source != NULL)
        ca_print_paragraph(stdout, 2, "# %s", workload->source);
}

void items_print_workloads(void)
{
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        print_workload(w);
        for (size_t n = 0; w->problems[n] != NULL; n++)
            ca_print_line(stdout, w->problems[n], 2);
    }
}

static void print_heading(const char *heading)
{
    const struct workload *workload = workload_find(heading);

    if (workload != NULL)
        print_workload(workload);
    else if (heading[0] != '\0')
        printf("%s:\n", heading);
}

/* Prints a job, or the tensors in a file, which have a name. */
static bool print_item(const struct item *item, struct message *why)
{
    struct attention_case attention = {.name = ""};

    if (item->path != NULL && !item_load(item, &attention, why))
        return false;
    char *text = job_text(item->path != NULL ? &attention.job : &item->job);
    if (attention.name[0] != '\0')
        printf("%s:\n", attention.name);
    if (text != NULL)
        ca_print_line(stdout, text, 2);
    free(text);
    if (item->path != NULL)
        case_free(&attention);
    return text != NULL || message_set(why, "no memory for the text of a problem");
}

bool items_print(const struct items *items, struct message *why)
{
    const char *before = "";

    for (size_t n = 0; n < items->count; n++) {
        const char *heading = items->item[n].heading;
        if (heading != NULL && strcmp(heading, before) != 0)
            print_heading(heading);
        before = heading != NULL ? heading : before;
        if (!print_item(&items->item[n], why))
            return false;
    }
    return true;
}
