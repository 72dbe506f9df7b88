/* A case as the reference reads it, and which of its results are looked at. */
#ifndef CLATTN_BENCH_SAMPLE_H
#define CLATTN_BENCH_SAMPLE_H

#include "bench/cases/case.h"
#include "bench/reference/tensors.h"
#include "bench/verify/check.h"

/* The operands of attention, and what is told with them; both borrow from the case. */
struct tensor_view sample_inputs(const struct attention_case *attention);

/* The output that is a tensor of the reference; it has to be one. */
enum output sample_output(enum tensor_id id);

/* Of a tensor's elements: compares with what was computed, if that is to be looked at. */
void sample_compare(struct worst *worst, const struct results *results, enum tensor_id id,
                    const struct tensor_shape *shape, size_t place, struct bounded want);

/* How many of `all` places are looked at where each costs so many elements of K and V: all of them, or
 * what a fraction of a second allows, but at least `fewest`. */
size_t sample_affordable(size_t all, double work, size_t fewest);

/* Of `all` places, place n of `count` in even steps from the first to the last. */
size_t sample_spread(size_t n, size_t count, size_t all);

/* What check_results() does for the kinds of jobs. */
bool check_rows(const struct attention_case *attention, const struct results *results,
                enum precision precision, struct worst *worst, struct message *why);
bool check_gradients(const struct attention_case *attention, const struct results *results,
                     enum precision precision, struct worst *worst, struct message *why);
bool check_projection(const struct attention_case *attention, const struct results *results,
                      enum precision precision, struct worst *worst, struct message *why);
bool check_merge(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why);
bool check_append(const struct attention_case *attention, const struct results *results,
                  enum precision precision, struct worst *worst, struct message *why);
bool check_layer(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why);

/* What an output held that is read as well, for free(); NULL if it is not. False without memory. */
bool sample_held(const struct attention_case *attention, enum output output, void **held,
                 struct message *why);

#endif
