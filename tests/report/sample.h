/* Results that nobody measured, as varied as measured ones can be: what the tests of reports show. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "bench/records/results.h"

/* Four devices of one machine: two of PoCL, Intel's, and one that failed; 20 problems; five peers, one
 * of them missing; every state that a result can have; one run interrupted. */
void sample_fill(struct run_results *results);

/* The first device alone, with so many problems. */
void sample_fill_one(struct run_results *results, size_t problems);

#endif
