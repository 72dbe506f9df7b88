/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench as a person calls it, and what it wrote. */
#ifndef TEST_BENCH_PROGRAM_H
#define TEST_BENCH_PROGRAM_H

#include "tests/support/programs/program.h"
#include "tests/support/programs/scratch.h"

/* Of the run's first device; NULL where there is no such. */
const json_t *bench_result(const json_t *run, size_t index);

/* What an implementation came to in a result of the run's first device; NULL if it took no part. */
const json_t *bench_row(const json_t *run, size_t index, const char *implementation);

/* 0 without times. */
size_t bench_samples(const json_t *row);

/* Fails the test if the table that was printed last is wider than 100 columns; lines of problems are
 * not cut. */
void bench_check_width(void);

#endif
