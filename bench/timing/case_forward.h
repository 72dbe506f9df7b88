/* SPDX-License-Identifier: Apache-2.0 */
/* Results of forward that backward needs. */
#ifndef CLATTN_BENCH_CASE_FORWARD_H
#define CLATTN_BENCH_CASE_FORWARD_H

#include "bench/cases/case.h"
#include "bench/timing/target.h"
#include "bench/verify/check.h"

/* The forward problem of a backward case, whose data is borrowed. */
struct attention_case case_forward_of(const struct attention_case *backward);

/* Compares results of forward with double precision. */
bool case_forward_right(const struct attention_case *forward, const struct results *results,
                        struct message *why);

/* Moves o and lse of these results into a case of backward attention. */
void case_forward_take(struct attention_case *backward, struct results *forward);

/* Puts what a forward execution on the target leaves into the case of a backward job, after
 * comparing its results with double precision: o and lse, or a layer's reserve. Other cases stay as
 * they are. For what computes these itself, as other libraries do, and is to come to the same
 * gradients. */
bool case_forward(struct attention_case *attention, const struct target *target,
                  struct message *why);

#endif
