/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that no one on this project wrote (tests/data/conformance), through the public API. */
#ifndef TEST_CONFORMANCE_CASE_H
#define TEST_CONFORMANCE_CASE_H

#include "tests/trials/trial.h"
#include <dirent.h>

/* Their files, in the order of their names; the names are those of the entries. */
struct dirent **conformance_files(int *count);

/* Runs what a file asks for with the trial's family, tunables and seed, and compares with the
 * reference. Inputs are the file's, rounded to *dtype; with NULL they are as the file has them, and
 * results are compared with its own as well. What the trial cannot hand out is not asked of it. */
void conformance_run(struct fixture *f, const char *name, const clattn_dtype *dtype,
                     struct trial *t);

#endif
