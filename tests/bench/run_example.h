/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of clattn-bench that never took place. */
#ifndef TEST_RUN_EXAMPLE_H
#define TEST_RUN_EXAMPLE_H

#include "bench/cases/case.h"
#include "bench/records/results.h"
#include "tests/support/rng.h"

/* Begins a run of a fixed date and host; results_free() frees it. */
void example_begin(struct run_results *results);

/* A CPU device with peaks of 500 GFLOP/s and 20 GB/s. */
struct device_run *example_device(struct run_results *results, const char *name,
                                  const char *platform);

/* A problem that takes 10^9 operations and 10^6 bytes. */
struct record *example_record(struct device_run *run, const char *name, const char *problem);

/* An implementation that was measured so often, up to a part `noise` off to both sides; the share of
 * the roof follows if it is clattn. */
struct outcome *example_outcome(struct record *record, const char *implementation, double seconds,
                                double noise, size_t samples, struct rng *random);

/* A problem that clattn solves in that time, up to 1 % off, in 9 samples. */
struct outcome *example_solved(struct device_run *run, const char *name, const char *problem,
                               double seconds);

/* Writes to an outcome that `ranks` ranks shared it in a mode, with this efficiency. Rank n
 * computed for n + 1 ms. */
void example_ranks(struct outcome *outcome, const char *mode, size_t ranks, double efficiency);

/* Everything that a file can hold. */
void example_full(struct run_results *results);

/* Fills the tensors of a problem or a layer, of this text, with random data; case_free() frees them. */
void example_case(struct attention_case *attention, const char *text);

/* ---- in a file of a test that has a scratch folder -------------------------------------------- */

/* Returns where the results of a test are. */
const char *run_path(void);

/* Both must succeed. */
void write_run(const char *to, const struct run_results *results);
void read_run(const char *from, struct run_results *results);

/* The full example there, as a document. */
json_t *example_document(void);

/* They are the same, or both are NULL. */
void check_text(const char *got, const char *want);

#endif
