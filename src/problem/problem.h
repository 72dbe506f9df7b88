/* What the plan derives from a problem. */
#ifndef CA_PROBLEM_H
#define CA_PROBLEM_H

#include "problem/options.def"
#include "problem/tensors.h"

#include <clattn/problem.h>

/* Packs those of these tensors (CA_BIT()s) that ca_problem_layout() knows, but w, in an order of
 * "bhsd", whatever the layouts were. Of gradients only in a backward problem. */
void ca_problem_order(clattn_problem *p, const char *order, unsigned arguments);

/* Storage that says the dtype again becomes none, so that equal problems have one text and one class. */
void ca_problem_simplify(clattn_problem *p);

/* Simplified, with explicit layouts, scale and windows: causality becomes window_right = 0. */
clattn_problem ca_problem_normal(const clattn_problem *p);

/* Whether each execution adds to what the results held before. */
int ca_problem_accumulates(const clattn_problem *p);

/* The diagonal that does not depend on lengths. */
int64_t ca_problem_diagonal(const clattn_problem *p);

/* Whether x of a projection in bf16 lies along x_dim, and pairs of neighbours along the depth are words: no pair is of two
 * heads, and all steps are even. */
int ca_projection_x_in_pairs(const clattn_projection_problem *p);

/* NULL if a quantized tensor may have this explicit layout, else the rule that it breaks. */
const char *ca_cache_refusal(const clattn_layout *layout, size_t dim);

#endif
