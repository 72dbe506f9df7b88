/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_list.h"
#include "cli/problems/workloads.h"
#include "cli/terminal/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_workload(const struct workload *workload)
{
    ca_print_wrapped(stdout, 2, "%s: %s", workload->name, workload->meaning);
    if (workload->source != NULL)
        ca_print_paragraph(stdout, 2, "# %s", workload->source);
}

void run_list_workloads(void)
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

/* Of a job, or of the tensors in a file, which have a name. */
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

bool run_list_items(const struct items *items, struct message *why)
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
