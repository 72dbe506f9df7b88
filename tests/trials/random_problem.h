/* SPDX-License-Identifier: Apache-2.0 */
/* Random problems: first a kind, which is what a program is compiled for, then shapes for it. */
#ifndef TEST_RANDOM_PROBLEM_H
#define TEST_RANDOM_PROBLEM_H

#include "families/family.h"
#include "tests/support/rng.h"

enum { NUM_UNITS = 8 };

/* A program costs a second or so to compile, a shape next to nothing. */
struct problem_kind {
    clattn_problem base; /* dims, dtypes and options; one query, one key */
    const struct ca_family *family;
    size_t values[CA_MAX_TUNABLES];  /* of the tunables */
    char tunables[CA_TUNABLES_TEXT]; /* their text, "" for the family's own choice */
    int unit[NUM_UNITS]; /* whether the innermost stride of q, k, v, o, do, dq, dk, dv is 1 */
};

/* Draws dims, dtypes, options and tunables that pass the family's checks on the device. */
struct problem_kind random_kind(struct rng *r, const struct ca_family *family,
                                const clattn_device_info *device);

/* Gives a kind the family's own tunables, or others that pass its checks. */
void random_tunables(struct rng *r, struct problem_kind *kind, const clattn_device_info *device,
                     int others);

/* Draws the sizes of block lists' blocks, which programs are compiled for. */
void random_block_sizes(struct rng *r, int large, clattn_problem *p);

/* Draws sizes, layouts, diagonal and windows. The work is bounded, so that the double-precision
 * reference takes a fraction of a second. */
/* Of a part of a larger attention the whole is so much larger. */
enum { WHOLE_MORE = 7 };

clattn_problem random_shape(struct rng *r, const struct problem_kind *kind);

/* A problem of any kind, for tests that run nothing. */
clattn_problem random_problem(struct rng *r);

#endif
