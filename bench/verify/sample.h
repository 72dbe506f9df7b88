/* SPDX-License-Identifier: Apache-2.0 */
/* A case as the reference reads it, and which of its results are looked at. */
#ifndef CLATTN_BENCH_SAMPLE_H
#define CLATTN_BENCH_SAMPLE_H

#include "bench/judge/tensors.h"
#include "bench/judge/worst.h"
#include "bench/verify/results.h"

/* The operands of attention, and what is told with them; both borrow from the case. */
struct tensor_view sample_inputs(const struct attention_case *attention);

/* Elements of K and V that a check may look at: a fraction of a second's. */
#define SAMPLE_BUDGET 2e7

/* The parts of check_results(), for each kind of job. */
bool check_projection(const struct attention_case *attention, const struct results *results,
                      enum precision precision, struct worst *worst, struct message *why);
bool check_merge(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why);
bool check_append(const struct attention_case *attention, const struct results *results,
                  enum precision precision, struct worst *worst, struct message *why);
bool check_layer(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why);

/* The previous contents of an output that is read as well, for free(); NULL if the output is not
 * read. False without memory. */
bool sample_held(const struct attention_case *attention, enum output output, void **held,
                 struct message *why);

#endif
