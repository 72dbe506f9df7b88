/* SPDX-License-Identifier: Apache-2.0 */
/* Files of test cases, read by clattn-bench's reader. A file that is not as it should be fails the test. */
#ifndef TEST_CASE_FILE_H
#define TEST_CASE_FILE_H

#include "bench/cases/safetensors.h"

/* Opens a file; safetensors_free() closes it. */
void case_file_open(struct safetensors *file, const char *path);

/* Returns false if the file has no tensor of that name. */
int case_file_find(const struct safetensors *file, const char *name, struct safetensor *tensor);

/* A string of the metadata; `otherwise` if there is none. */
const char *case_file_text(const struct safetensors *file, const char *key, const char *otherwise);

#endif
