/* SPDX-License-Identifier: Apache-2.0 */
/* A case as the reference reads it, and which of its results are looked at. */
#ifndef CLATTN_BENCH_SAMPLE_H
#define CLATTN_BENCH_SAMPLE_H

#include "bench/judge/tensors.h"
#include "bench/judge/worst.h"
#include "bench/verify/results.h"

/* The tensors that the problem's operation reads, and what is told with them; borrowed from the case. */
struct tensor_view sample_inputs(const struct attention_case *attention);

/* The output that is a tensor of the judge; it has to be one. */
enum output sample_output(clattn_operation operation, int id);

/* Elements of K and V that a check may look at: a fraction of a second's. */
#define SAMPLE_BUDGET 2e7

/* check_results() of a layer. */
bool check_layer(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why);

/* The previous contents of a tensor, for free(), if it is an output that is read as well, not a cache. False without
 * memory. */
bool sample_held(const struct attention_case *attention, const struct tensor_shape *shape, int id,
                 const unsigned char **held, struct message *why);

#endif
