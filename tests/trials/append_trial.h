/* SPDX-License-Identifier: Apache-2.0 */
/* One append run through the public API on host memory and compared with the reference: the tokens' rows,
 * and that nothing else changes. It needs no Criterion: tests/races runs it as well. */
#ifndef TEST_APPEND_TRIAL_H
#define TEST_APPEND_TRIAL_H

#include "bench/judge/append.h"
#include "tests/support/rng.h"
#include <clattn/clattn.h>

struct append_trial {
    clattn_problem problem;
    size_t bytes[APPEND_KINDS][2];     /* of what is read, and written */
    unsigned char *from[APPEND_KINDS]; /* NULL: there is none */
    unsigned char *to[APPEND_KINDS], *before[APPEND_KINDS];
    cl_int *kv_lengths, *positions, *slots, *page_table;
    float *cos, *sin;
};

/* Random data. hostile: lengths and slots of which some are negative or beyond the cache; else all tokens
 * have a place. 0 without memory. */
int append_trial_fill(struct append_trial *t, const clattn_problem *problem, struct rng *r,
                      int hostile);
void append_trial_free(struct append_trial *t);

clattn_status append_trial_run(struct append_trial *t, clattn_context *context,
                               const clattn_plan_options *options);

/* How many numbers of the tokens' rows are not what the reference says, and how many bytes beside them
 * have changed. */
size_t append_trial_compare(const struct append_trial *t);

/* A problem with random sizes and layouts; its options are those of base. */
clattn_problem append_trial_draw(struct rng *r, const clattn_problem *base);

#endif
