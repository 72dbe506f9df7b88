/* Trying candidates on a device: building, checking and timing them. Two do it: this process, and a
 * worker process of clattn-tune. The one header of src/ that tuner/ may include, with tune.h. */
#ifndef CA_MEASURER_H
#define CA_MEASURER_H

#include "families/candidate.h"
#include "search/outcome.h"
#include <clattn/context.h>

/* Problems are known by their index among those that a measurer was made with. All calls come from
 * one thread, one at a time. */
struct ca_measurer {
    void *user;
    /* Hint: these will be built next; NULL: not wanted. */
    void (*announce)(void *user, const struct ca_candidate *candidates, size_t count);
    /* Builds the program for the first problem (all are alike) and self-checks it. compile_seconds
     * holds both: many drivers finish compiling when a program first runs. */
    void (*build)(void *user, const struct ca_candidate *candidate, struct ca_reading *reading);
    /* Checks the candidate on the problem itself (its values at sampled rows, nothing written out
     * of bounds, no NaN), then times it: warm-up by busy time until three readings agree, each
     * reading long enough for the device's timer; at least three readings, but only one if it is over
     * 2.5 * best, two if both are over 1.5 * best (best 0: never). What build() says of the binary
     * and the time to compile is left as it is. */
    void (*measure)(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *reading);
    /* One reading of each, in this order; INFINITY for one that fails. Nothing is checked again. */
    void (*round)(void *user, size_t problem, const struct ca_candidate *candidates, size_t count,
                  double *seconds);
    /* After a round of one candidate that failed: how. NULL: as CA_RUNTIME_FAILED. */
    enum ca_outcome (*failure)(void *user);
    size_t batch; /* how many it builds at once if they are announced; 0 is 1 */
};

/*
 * Measures in this process, on the context's device. The problems are alike (ca_classes_alike())
 * and sound; copied. What the candidates' failures log comes as warnings: only a call that fails
 * logs an error. The programs are the measurer's: they go with it, and none is kept on disk.
 * CA_POLICY names how it measures, for the store. On failure *measurer is zeros.
 *
 * CLATTN_OUT_OF_MEMORY if a problem's tensors exceed the device's largest allocation or a quarter
 * of its memory, CLATTN_INVALID_PROBLEM if one is empty.
 */
#define CA_POLICY "device events, warm, min of 3 then interleaved medians"
clattn_status ca_measurer_create(clattn_context *ctx, const clattn_problem *problems, size_t count,
                                 struct ca_measurer *measurer);
void ca_measurer_destroy(struct ca_measurer *measurer);

/* Of one that ca_measurer_create() made: true once a candidate has left the OpenCL context in such
 * a state that nothing runs any more. From then on every outcome is CA_CONSTRAINT_FAILED, which is
 * held against nobody: only a new process helps. */
int ca_measurer_lost(const struct ca_measurer *measurer);

#endif
