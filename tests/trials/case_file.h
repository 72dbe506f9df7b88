/* SPDX-License-Identifier: Apache-2.0 */
/* Files of cases that the tests trust, by clattn-bench's reader. */
#ifndef TEST_CASE_FILE_H
#define TEST_CASE_FILE_H

#include "bench/cases/safetensors.h"

/* Fails the test if the file is not as it should be. safetensors_free() is due. */
void case_file_open(struct safetensors *file, const char *path);

/* False if the file has no tensor of that name. */
int case_file_find(const struct safetensors *file, const char *name, struct safetensor *tensor);

/* A string of the metadata, or otherwise. */
const char *case_file_text(const struct safetensors *file, const char *key, const char *otherwise);

#endif
