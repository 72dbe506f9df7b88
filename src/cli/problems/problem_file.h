/* SPDX-License-Identifier: Apache-2.0 */
/* A file of problems and layers, one text form a line: a user's own workload.
 *
 *     # what my program does
 *     fwd f16 b1 h32/8 q1 k4096 d128 causal=br
 *     encoder: fwd f32 b1 h12 q1500 d64        # "NAME: " names this line and those after it
 */
#ifndef CLATTN_BENCH_PROBLEM_FILE_H
#define CLATTN_BENCH_PROBLEM_FILE_H

#include "cli/job.h"
#include "cli/message.h"

#define PROBLEM_FILE_MOST_LINES 1000 /* Most lines with a problem. */

struct problem_line {
    char name[64]; /* Name given by this or an earlier line; "" if there is none. */
    struct job job;
};

struct problem_file {
    struct problem_line *line; /* Owned. */
    size_t count;              /* At least 1. */
};

/* On failure *file is empty and *why names the file, the line and what is wrong there. */
bool problem_file_read(struct problem_file *file, const char *path, struct message *why);

void problem_file_free(struct problem_file *file);

#endif
