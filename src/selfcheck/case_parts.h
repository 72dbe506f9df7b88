/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of every operation are made of (src/selfcheck/case_make.c). */
#ifndef CA_TRUST_CASE_PARTS_H
#define CA_TRUST_CASE_PARTS_H

#include "families/candidate.h"
#include "problem/operations.def"
#include "selfcheck/case.h"

/* Room for data and answers of num_rows rows, and backward of num_keys keys, of c->problem, all
 * bytes CA_TRUST_FILL. sums: as for ca_gradients_allocate(). 0 without memory. */
int ca_trust_allocate(struct ca_trust_case *c, size_t num_rows, size_t num_keys, int sums);

/* The blocks alone. */
int ca_trust_allocate_blocks(struct ca_trust_case *c);

/* The problem of the hostile case of attention for a normal one: with its dims and options. candidate:
 * whose workspace counts, NULL for none. (src/selfcheck/case_size.c) */
clattn_problem ca_trust_shrink(const clattn_problem *real, const struct ca_candidate *candidate);

/* How many of `all` rows (or keys) are judged in a hostile case of this problem. */
size_t ca_trust_judged(const clattn_problem *p, size_t all);

/* How many of `all` rows (or keys) are judged in an ordinary case, if each takes so many
 * multiplications. */
size_t ca_trust_to_judge(size_t all, size_t products);

/* Places from the first to the last of `all`. */
void ca_trust_spread(size_t *places, size_t count, size_t all);

/* Random numbers in the whole span, gaps between strides included. */
void ca_trust_fill_random(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype, float low,
                          float high, unsigned *state);

/* Block lists, if the problem has them. */
void ca_trust_fill_lists(struct ca_trust_case *c);

/* Random numbers in the elements alone, of the type that the tensor has. Nothing if there is none. */
void ca_trust_fill_elements(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype,
                            float low, float high, unsigned *state);

/* Keeps the blocks of outputs that are read as well. 0 without memory. */
int ca_trust_keep_before(struct ca_trust_case *c);

/* Gaps after each axis, `order`[3] innermost with that step, so that no two axes go on in each other. */
enum { CA_TRUST_GAP = 3 }; /* what no piece of several elements begins behind */
clattn_layout ca_trust_gapped(const int order[4], const size_t sizes[4], size_t innermost,
                              size_t gap);

/* ca_trust_case_judge() of an append, whose results lie where its data say. */
const char *ca_append_case_judge(const struct ca_trust_case *c, double *error, char *text,
                                 size_t text_bytes);

/* The cases of each operation, as those of trust_case.h, which call them. */
#define OPERATION(ID, name, ...)                                                                   \
    int ca_##name##_case_make(struct ca_trust_case *c, const clattn_problem *p,                    \
                              const struct ca_candidate *candidate);                               \
    int ca_##name##_case_make_ordinary(struct ca_trust_case *c, const clattn_problem *p);
CA_OPERATIONS(OPERATION)
#undef OPERATION

#endif
