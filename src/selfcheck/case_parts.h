/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that make the cases of every operation (src/selfcheck/case_make.c, case_parts.c). */
#ifndef CA_TRUST_CASE_PARTS_H
#define CA_TRUST_CASE_PARTS_H

#include "families/candidate.h"
#include "problem/operations.def"
#include "selfcheck/case.h"

/* The data's blocks, all bytes CA_TRUST_FILL, and room for answers of so many elements. 0 without memory. */
int ca_trust_allocate(struct ca_trust_case *c, size_t answers, size_t elements);

/* A new answer of `count` elements from (b, h, s) of a result on, all zeros; and that of one element of lse, of row s
 * of a head of so many. There must be room. */
struct ca_bounded *ca_trust_answer(struct ca_trust_case *c, unsigned argument, size_t b, size_t h,
                                   size_t s, size_t count);
struct ca_bounded *ca_trust_answer_lse(struct ca_trust_case *c, unsigned argument, size_t b,
                                       size_t h, size_t s, size_t heads, size_t rows);

/* The problem of the hostile case of attention for a normal one: with its dims and options. candidate:
 * whose workspace counts, NULL for none. (src/selfcheck/case_size.c) */
clattn_problem ca_trust_shrink(const clattn_problem *real, const struct ca_candidate *candidate);

/* Returns how many of `all` rows (or keys) are checked in a hostile case of this problem. */
size_t ca_trust_judged(const clattn_problem *p, size_t all);

/* The rows (or keys) that are checked, out of `all`: every step-th, or, if step is 0, `count` evenly from the first to the
 * last. */
struct ca_sample {
    size_t all, count, step;
};

/* ca_trust_spread() returns which rows of an ordinary case are checked, if each takes `products` multiplications.
 * ca_trust_each() returns all rows. ca_trust_place() returns the index of row n of a sample. */
struct ca_sample ca_trust_spread(size_t all, size_t products);
struct ca_sample ca_trust_each(size_t all);
size_t ca_trust_place(const struct ca_sample *sample, size_t n);

/* Fills in the answers of a forward problem for rows counted (b, h, i), from the data. 0 without memory.
 * (src/selfcheck/answer.c) */
int ca_trust_solve(struct ca_trust_case *c, const struct ca_sample *rows);

/* ca_gradients_solve(): likewise of a backward problem, of rows and of keys, which are counted (b, kv_head, j), for the o and
 * lse that the data hold; with `sums` also gradients that sum over all rows. ca_gradients_fill_lse(): fills in lse,
 * -infinity where a row sees nothing. (src/selfcheck/answer_gradient.c) */
int ca_gradients_solve(struct ca_trust_case *c, const struct ca_sample *rows,
                       const struct ca_sample *keys, int sums);
int ca_gradients_fill_lse(struct ca_trust_case *c, unsigned *state);

/* Returns whether the gradient of the bias is judged: only if the bias does not broadcast. */
int ca_gradients_has_bias(const clattn_problem *p);

/* Drawing all numbers would take longer than the kernels, so they repeat after a prime: no two rows
 * are alike. This repeats the first `done` bytes to the end. */
enum { CA_TRUST_PERIOD = 65521 };
void ca_trust_repeat(unsigned char *bytes, size_t done, size_t count);

/* Random numbers in the whole span, gaps between strides included. */
void ca_trust_fill_random(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype, float low,
                          float high, unsigned *state);

/* Random numbers in the elements alone, of the type that the tensor has. Nothing if there is none. */
void ca_trust_fill_elements(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype,
                            float low, float high, unsigned *state);

/* Keeps the blocks of outputs that are read as well. 0 without memory. */
int ca_trust_keep_before(struct ca_trust_case *c);

/* Gaps after each axis, `order`[3] innermost with that step, so that no two axes go on in each other. */
/* elements; odd, so that what follows is not aligned to several elements */
enum { CA_TRUST_GAP = 3 };
clattn_layout ca_trust_gapped(const int order[4], const size_t sizes[4], size_t innermost,
                              size_t gap);

/* The layout of a tensor of a hostile case, with gaps after each axis; elements of a row are neighbours where they are in
 * the real one. */
clattn_layout ca_trust_keep_unit(const clattn_layout *real, size_t b, size_t h, size_t rows,
                                 size_t dim);

/* Entry n of a tensor of ints; setting does nothing if there is no such tensor. */
cl_int ca_trust_number(const struct ca_trust_case *c, unsigned argument, size_t n);
void ca_trust_set_number(struct ca_trust_case *c, unsigned argument, size_t n, int64_t number);

/* The hostile case of each operation, and the ordinary one of c->problem. 0 without memory; ca_trust_case_make() and
 * ca_trust_case_make_ordinary(), which call them, begin with a case of zeros and free it in that case. */
#define OPERATION(ID, name, ...)                                                                   \
    int ca_##name##_case_make(struct ca_trust_case *c, clattn_context *ctx,                        \
                              const clattn_problem *real, const struct ca_candidate *candidate);   \
    int ca_##name##_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx);
CA_OPERATIONS(OPERATION)
#undef OPERATION
int ca_projection_case_make_in_pieces(struct ca_trust_case *c, const clattn_problem *real);

#endif
