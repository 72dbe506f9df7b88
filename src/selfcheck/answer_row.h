/* SPDX-License-Identifier: Apache-2.0 */
/* A row of a case's score matrix in double precision: what is visible, scores and their errors. */
#ifndef CA_TRUST_CASE_ROW_H
#define CA_TRUST_CASE_ROW_H

#include "selfcheck/case.h"
#include "selfcheck/function_calls.h"

#include <stdint.h>

/* One row's way through the formula of clattn/problem.h; arrays are reused from row to row. */
struct ca_trust_row {
    size_t b, h, i;
    size_t queries, keys; /* queries and keys of batch b that are in use */
    int64_t diagonal;
    double *q;               /* dim_qk */
    double *values;          /* a row of k or v */
    double *mean;            /* dim_qk: the mean of keys, with int8 */
    size_t mean_of;          /* 1 plus the number of the kv head, of all batches', that it is of */
    double *weights;         /* seq_kv: first scores, -inf where hidden */
    double *slack;           /* seq_kv: the error of a score, then the relative error of a weight */
    double *errors;          /* dim_v */
    struct ca_bounded slope; /* the derivative of softcap and score function at the last score */
    struct ca_function_loads loads; /* what the score function has loaded for it */
};

/* 0 without memory; to be closed in any case. */
int ca_trust_row_open(const clattn_problem *p, struct ca_trust_row *row);
void ca_trust_row_close(struct ca_trust_row *row);

/* The elements of a tensor; NULL if the problem has no such tensor. */
unsigned char *ca_trust_elements(const struct ca_trust_case *c, unsigned argument);

/* The keys that batch b has in memory: all, or those of its sequence in a packed batch. */
size_t ca_trust_keys(const struct ca_trust_case *c, size_t b);

/* The batch and the row of q and o that hold query i of batch b; 0 if its sequence is shorter. */
int ca_trust_locate_query(const struct ca_trust_case *c, size_t b, size_t i, size_t *block,
                          size_t *row);

/* The batch, or the page, and the row of k and v that hold key j of batch b; 0 if no page does. */
int ca_trust_locate_key(const struct ca_trust_case *c, size_t b, size_t j, size_t *block,
                        size_t *row);

/* The place of a row's lse; 0 if the row's sequence is shorter. */
int ca_trust_lse_place(const struct ca_trust_case *c, const struct ca_trust_row *row,
                       size_t *place);

size_t ca_trust_position(const clattn_layout *layout, size_t b, size_t h, size_t s, size_t d);

/* The error that standard precision adds when an operand of the second product, p' or dt, is
 * rounded to the dtype (clattn/problem.h): a relative and an absolute part. */
double ca_trust_operand_share(const clattn_problem *p);
double ca_trust_operand_tiny(const clattn_problem *p);

/* Rounds p' or dt to such an operand. */
struct ca_bounded ca_trust_operand(const clattn_problem *p, struct ca_bounded x);

/* The relative error of a sum of n terms. */
double ca_trust_length_error(size_t n);

/* Moves the row to number `index` of all, counted as lse is packed. */
void ca_trust_row_locate(const struct ca_trust_case *c, size_t index, struct ca_trust_row *row);

/* The distance by which ALiBi multiplies the slope of the row's head. */
double ca_trust_distance(const clattn_problem *p, const struct ca_trust_row *row, size_t j);

/* Loads the values of a row of k or v, times their scale. */
void ca_trust_load_key(const struct ca_trust_case *c, unsigned argument,
                       const clattn_layout *layout, size_t block, size_t head, size_t place,
                       size_t dim, double *values);

/* Returns whether the row's query sees key j. A bias of -inf does not hide a key here. */
int ca_trust_row_sees(const struct ca_trust_case *c, const struct ca_trust_row *row, size_t j);

/* The final score of key j, and its value at the point that the problem hands out, if that lies
 * before the masks; each with the error that it may have. row->q holds the query. */
struct ca_bounded ca_trust_row_score(const struct ca_trust_case *c, struct ca_trust_row *row,
                                     size_t j, struct ca_bounded *shown);

/* ---- pairs, backward (src/selfcheck/answer_pair.c) -------------------------------------------------- */

/* Some rows of a hostile case have a bias so large that their scores and lse, in f32, are the bias alone. All weights of such
 * a row are equal. */
#define CA_TRUST_HIGH_BIAS 0x1p40f
int ca_trust_is_high(const struct ca_trust_case *c, size_t i);

/* A row with the data that all of its pairs share. */
struct ca_pair_row {
    struct ca_trust_row scores;
    double *d_o, *other; /* dim_v; the longer dim */
    struct ca_bounded lse, delta;
    size_t seen; /* number of keys that a row with a high bias sees; 0 in other rows */
    int loaded;
};

/* p after dropout and ds of a pair, ds before and after softcap's derivative. */
struct ca_pair {
    struct ca_bounded p, raw, ds;
};

/* 0 without memory; to be closed in any case. */
int ca_pair_row_open(const clattn_problem *p, struct ca_pair_row *row);
void ca_pair_row_close(struct ca_pair_row *row);

/* Moves to row `index`; its vectors are read with its first visible pair, or by load: hidden rows
 * hold anything. */
void ca_pair_row_locate(const struct ca_trust_case *c, size_t index, struct ca_pair_row *row);
void ca_pair_row_load(const struct ca_trust_case *c, struct ca_pair_row *row);

/* Returns false if the row does not see key j. */
int ca_pair_look(const struct ca_trust_case *c, struct ca_pair_row *row, size_t j,
                 struct ca_pair *pair);

/* Returns how many keys the row sees, none with a bias of -inf. */
size_t ca_trust_seen(const struct ca_trust_case *c, const struct ca_trust_row *row);

/* count numbers of a row of a tensor. */
void ca_pair_load(const struct ca_trust_case *c, unsigned argument, const clattn_layout *layout,
                  size_t b, size_t h, size_t s, size_t count, double *to);

#endif
