/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a run in a file, of a test that has a scratch folder. */
#ifndef TEST_RUN_FILE_H
#define TEST_RUN_FILE_H

#include "bench/records/results.h"

/* Where the results of a test are. */
const char *run_path(void);

/* Both must succeed. */
void write_run(const char *to, const struct run_results *results);
void read_run(const char *from, struct run_results *results);

/* They are the same, or both are NULL. */
void check_text(const char *got, const char *want);

#endif
