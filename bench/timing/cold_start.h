/* SPDX-License-Identifier: Apache-2.0 */
/* The time of the first result in a new process. It is measured in processes of this program's
 * own: the first finds empty caches, the second finds what the first has left there. */
#ifndef CLATTN_BENCH_COLD_START_H
#define CLATTN_BENCH_COLD_START_H

#include "cli/message.h"

#include <stddef.h>

/* The parts of compiling in a first call, in seconds. All are 0 if nothing was compiled. */
enum {
    COLD_START_FRONT_END,
    COLD_START_CODE_GENERATION,
    COLD_START_SELF_CHECK,
    COLD_START_STORING,
    COLD_START_PARTS
};
struct cold_start_parts {
    double seconds[COLD_START_PARTS];
};

/* "front_end", "code_generation", "self_check", "storing". */
extern const char *const cold_start_part_keys[COLD_START_PARTS];

/* "front end 1.23 s, code generation ..."; "" if nothing was compiled. */
void cold_start_parts_print(const struct cold_start_parts *parts, char *text, size_t bytes);

struct cold_start {
    const char *program; /* Path of clattn-bench. */
    size_t device;       /* The device's index. */
    const char *problem;
    const char *configuration; /* "FAMILY NAME=value ...", as the duel takes it; NULL: what the
                                * library chooses without a store, which a layer has. */
    double seconds;            /* Time limit of each process. */
    void (*tick)(void *user);  /* Called several times a second while one runs. */
    void *user;
};

/* Seconds from the first OpenCL call to the end of the first execution, and the parts of the first of
 * them. False if either process failed, took too long or was interrupted; the times are NaN then. */
bool cold_start_measure(const struct cold_start *call, double *source, double *cache,
                        struct cold_start_parts *parts, struct message *why);

#endif
