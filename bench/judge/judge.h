/* SPDX-License-Identifier: Apache-2.0 */
/* Every element that a problem writes, or some of them, with what it must be: one walk for tests and
 * benchmark, each of which compares what it has. */
#ifndef CLATTN_JUDGE_JUDGE_H
#define CLATTN_JUDGE_JUDGE_H

#include "bench/judge/bounded.h"
#include "bench/judge/tensors.h"

/* Takes `count` elements of a tensor, by its number in the enum of the operation, from at[] on along the last axis. */
typedef void judge_visit(void *user, int id, const size_t at[4], const struct bounded *want,
                         size_t count);

/* Computes in double precision the results of a problem of any operation. Forward gives rows
 * (batch, head, query) of o, lse and scores. Backward uses the o and lse in the view. It gives rows
 * of dq, rows of dk and dv (batch, kv head, key), and elements of the gradients that sum over many
 * pairs. The other operations give rows of their results. Rows that no sequence of a packed batch
 * has, and those of tokens that have no place, are left out.
 *
 * budget: how many elements of what is read may be looked at. INFINITY: all results. Else places spread over
 * all of each tensor, the first and the last among them. False without memory. */
bool judge_results(const clattn_problem *p, const struct tensor_view *view,
                   enum precision precision, double budget, judge_visit *visit, void *user);

/* Why a problem cannot be judged: what of its functions (clattn/function.h) is not understood. NULL if it can be. */
const char *judge_refusal(const clattn_problem *p);

/* The parts of judge_results(). No other library is asked to merge or to append, so that precision does not matter there. */
typedef bool judge_operation(const clattn_problem *p, const struct tensor_view *view,
                             enum precision precision, double budget, judge_visit *visit,
                             void *user);
judge_operation judge_rows, judge_gradients;
#define JUDGED(ID, name, ...) judge_operation judge_##name;
JUDGED_OPERATIONS(JUDGED)
#undef JUDGED

/* ---- what is looked at ----------------------------------------------------------------------- */

/* Returns how many of `all` places are looked at where each costs so many elements of the budget:
 * all of them, or what it allows, but at least `fewest`. */
size_t judge_affordable(double budget, size_t all, double work, size_t fewest);

/* Place n of `count` places that are evenly spread over `all`, from the first to the last. */
size_t judge_spread(size_t n, size_t count, size_t all);

#endif
