#include "items.h"
#include "case_file.h"
#include "workloads.h"

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

static bool add_problem(struct items *items, const char *heading, const char *text,
                        struct message *why)
{
    struct item item = {.heading = heading};
    char reason[256];

    if (clattn_problem_parse(text, &item.problem, reason, sizeof reason) != CLATTN_SUCCESS)
        return message_set(why, "'%s' is no workload, no file and no problem: %s", text, reason);
    return add_item(items, &item, why);
}

static bool add_file(struct items *items, const char *path, struct message *why)
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
    for (size_t n = 0; workload->problems[n] != NULL; n++)
        if (!add_problem(items, n == 0 ? workload->name : NULL, workload->problems[n], why))
            return false;
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool add_argument(struct items *items, const char *argument, struct message *why)
{
    const struct workload *workload = workload_find(argument);

    if (workload != NULL)
        return add_workload(items, workload, why);
    if (ends_with(argument, ".safetensors"))
        return add_file(items, argument, why);
    return add_problem(items, "", argument, why);
}

bool items_read(struct items *items, int count, char **arguments, struct message *why)
{
    if (count == 0)
        for (const struct workload *w = workloads; w->name != NULL; w++)
            if (!add_workload(items, w, why))
                return false;
    for (int n = 0; n < count; n++)
        if (!add_argument(items, arguments[n], why))
            return false;
    return true;
}

void items_free(struct items *items)
{
    free(items->item);
    *items = (struct items){NULL, 0};
}

bool item_load(const struct item *item, struct attention_case *attention, struct message *why)
{
    struct safetensors file;

    if (item->path == NULL)
        return case_random(attention, &item->problem, 1, why);
    if (!safetensors_read(&file, item->path, why))
        return false;
    const bool ok = case_file_read(attention, &file, item->path, item->index, why);
    safetensors_free(&file);
    return ok;
}
