/* SPDX-License-Identifier: Apache-2.0 */
/* The problems of a run, taken from the arguments of the command line, workloads and files. */
#ifndef CLATTN_BENCH_ITEMS_H
#define CLATTN_BENCH_ITEMS_H

#include "bench/cases/case.h"

/* One job before it runs. */
struct item {
    const char *heading; /* NULL: the heading of the item before. */
    const char *path;    /* NULL: random data for the job. */
    size_t index;        /* Index of the answer in the file. */
    struct job job;
};

struct items {
    struct item *item;
    size_t count;
    char **names; /* Headings out of files; owned. */
    size_t num_names;
};

/* Fills *items: each argument is the name of a workload, the text form of a problem or a layer, or a file. A
 * FILE.safetensors has tensors, any other file a problem or a layer a line. The items borrow the
 * texts. On failure *why says which argument is none of these, or what is wrong in a file;
 * items_free() is due all the same. */
bool items_read(struct items *items, int count, const char *const *arguments, struct message *why);

void items_free(struct items *items);

/* The item's data: from its file, or random. */
bool item_load(const struct item *item, struct attention_case *attention, struct message *why);

/* Prints every workload with its meaning, its source and its problems. */
void items_print_workloads(void);

/* Prints the items under their headings; of tensors in a file the problem that they make. On
 * failure *why says which file is not sound. */
bool items_print(const struct items *items, struct message *why);

#endif
