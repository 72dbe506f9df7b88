/* SPDX-License-Identifier: Apache-2.0 */
/* Every element that attention writes, or some of them, with what it must be: one walk for tests and
 * benchmark, each of which compares what it has. */
#ifndef CLATTN_JUDGE_JUDGE_H
#define CLATTN_JUDGE_JUDGE_H

#include "bench/judge/bounded.h"
#include "bench/judge/tensors.h"

/* Takes `count` elements from at[] on along the last axis. */
typedef void judge_visit(void *user, enum tensor_id id, const size_t at[4],
                         const struct bounded *want, size_t count);

/* Computes rows (batch, head, query) of a problem in double precision: o, lse and scores; of backward rows
 * of dq, rows of dk and dv (batch, kv head, key), and elements of the gradients that sum over many pairs,
 * from the o and lse in the view. Rows that no sequence of a packed batch has are left out.
 *
 * budget: how many elements of K and V may be looked at. INFINITY: all results. Else places spread over
 * all of each tensor, the first and the last among them. False without memory. */
bool judge_attention(const clattn_problem *p, const struct tensor_view *view,
                     enum precision precision, double budget, judge_visit *visit, void *user);

/* The two parts of judge_attention(), for forward and for backward. */
bool judge_rows(const clattn_problem *p, const struct tensor_view *view, enum precision precision,
                double budget, judge_visit *visit, void *user);
bool judge_gradients(const clattn_problem *p, const struct tensor_view *view,
                     enum precision precision, double budget, judge_visit *visit, void *user);

/* Takes `count` elements from at[] on of an output of another operation (judge_projection(), judge_merge(),
 * judge_append(), which take a budget likewise). */
typedef void judge_row(void *user, int output, const size_t at[4], const struct bounded *want,
                       size_t count);

/* ---- what is looked at ----------------------------------------------------------------------- */

/* How many of `all` places are looked at where each costs so many elements of the budget: all of them, or
 * what it allows, but at least `fewest`. */
size_t judge_affordable(double budget, size_t all, double work, size_t fewest);

/* Place n of `count` places that are evenly spread over `all`, from the first to the last. */
size_t judge_spread(size_t n, size_t count, size_t all);

#endif
