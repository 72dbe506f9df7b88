/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that the plan derives from a problem. */
#ifndef CA_PROBLEM_H
#define CA_PROBLEM_H

#include "problem/options.def"
#include "problem/tensors.h"

#include <clattn/problem.h>

/* Packs those of these tensors (CA_BIT()s) that ca_tensor_layout() knows, but w, in an order of
 * "bhsd", whatever the layouts were. Of gradients only in a backward problem. */
void ca_problem_order(clattn_problem *p, const char *order, uint64_t arguments);

/* Storage that says the dtype again becomes none, so that equal problems have one text and one class. */
void ca_problem_simplify(clattn_problem *p);

/* A problem that was checked. It has the caller's form, for its text, and the normal form, for
 * everything else. */
struct ca_problem {
    clattn_problem given, normal;
};

/* Checks a caller's problem, with the reasons and statuses of clattn_problem_check(), and makes the pair. */
clattn_status ca_problem_make(const clattn_problem *given, struct ca_problem *made, char *reason,
                              size_t reason_bytes);

/* Makes the pair for a valid problem that the library itself made. */
struct ca_problem ca_problem_own(const clattn_problem *sound);

/* Returns whether a second program computes sums or means of weights after attention (src/families/weight_sums). */
static inline int ca_has_weight_sums(const clattn_problem *p)
{
    return p->key_sums || p->scores == CLATTN_SCORES_MEAN;
}

/* Returns the problem in normal form: layouts, scale and windows are explicit, causality is
 * window_right = 0. ca_problem_own() calls it for the library. */
clattn_problem ca_problem_normal(const clattn_problem *p);

/* Joins axes of a projection with explicit layouts: where strides go on evenly, the batch becomes
 * part of rows, x_heads of x_dim and y_heads of y_dim: fewer, longer axes with the same elements in
 * the same order. */
void ca_projection_join_axes(clattn_problem *p);

/* Makes the scale and the window of a double backward explicit. */
void ca_double_backward_normal(clattn_double_backward_problem *p);

/* Returns the diagonal of some sizes that does not depend on lengths. */
int64_t ca_diagonal(clattn_diagonal diagonal, int64_t offset, size_t seq_q, size_t seq_kv);

/* What decides how many pairs of queries and keys are visible; total_q and total_kv are 0 without a packed batch. */
struct ca_visible {
    size_t batch, heads, seq_q, seq_kv, total_q, total_kv;
    int64_t window_left, window_right, diagonal;
    double most; /* pairs that a head of a sequence lists; INFINITY without lists */
};
double ca_visible_pairs(const struct ca_visible *p);

/* Returns whether each execution adds to what the results held before. */
int ca_problem_accumulates(const clattn_problem *p);

/* The diagonal that does not depend on lengths. */
int64_t ca_problem_diagonal(const clattn_problem *p);

/* Returns whether x of a projection in bf16 lies along x_dim, and pairs of neighbours along the
 * depth are words: no pair is of two heads, and all steps are even. */
int ca_projection_x_in_pairs(const clattn_projection_problem *p);

/* NULL if a quantized tensor may have this explicit layout, else the rule that it breaks. */
const char *ca_cache_refusal(const clattn_layout *layout, size_t dim);

#endif
