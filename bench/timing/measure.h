/* SPDX-License-Identifier: Apache-2.0 */
/* One case on the device: its plan, its buffers, its results and how long it takes. */
#ifndef CLATTN_BENCH_MEASURE_H
#define CLATTN_BENCH_MEASURE_H

#include "bench/cases/case.h"
#include "bench/timing/engine.h"
#include "bench/timing/timing.h"
#include "bench/verify/check.h"

struct measurement {
    struct engine engine;
    struct tensor_set *sets; /* Equal sets of tensors, which executions use in turn. */
    size_t copies, next;
    double plan_seconds;          /* Time for making the plan, by the host's clock. */
    double first_seconds;         /* Time of the first execution, by the host's clock. */
    double seconds;               /* Seconds of one execution, as last measured; 0: not yet. */
    double host[TIMING_MOST + 1]; /* Times of enqueueing in the present sample. */
    size_t enqueued;
};

/* Makes the plan, copies the data to the device `copies` times, and executes once. That also
 * compiles what the driver leaves to the first launch. */
bool measurement_open(struct measurement *measurement, const struct target *target,
                      const struct attention_case *attention, const clattn_plan_options *options,
                      size_t copies, struct message *why);

/* Another plan on the same tensors, so that where they lie in memory favours neither. The other one
 * must stay open. */
bool measurement_open_beside(struct measurement *measurement, const struct measurement *other,
                             const struct attention_case *attention,
                             const clattn_plan_options *options, struct message *why);

void measurement_close(struct measurement *measurement);

/* Executes on the next set, whose outputs held NaN, and reads them; to be freed. */
bool measurement_results(struct measurement *measurement, const struct attention_case *attention,
                         struct results *results, struct message *why);

/* Compares results with the answer in the case, if it has one, else with double precision. */
bool measurement_compare(const struct attention_case *attention, const struct results *results,
                         struct worst *worst, struct message *why);

/* Both of these. */
bool measurement_check(struct measurement *measurement, const struct attention_case *attention,
                       struct worst *worst, struct message *why);

/* Executes back to back for about `busy` seconds: the time of one as timing_median() has it, and
 * the median of what enqueueing one cost the calling thread. */
bool measurement_sample(struct measurement *measurement, double busy, double *seconds, double *host,
                        struct message *why);

/* Gives the time of an execution in the calling thread beyond bare calls of
 * clEnqueueNDRangeKernel for the same kernels. It is the difference of medians over turns of
 * both, on an empty queue. Not for layers. */
bool measurement_overhead(struct measurement *measurement, double *seconds, struct message *why);

#endif
