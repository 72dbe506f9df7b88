/* SPDX-License-Identifier: Apache-2.0 */
/* Shared virtual memory (OpenCL 2.0), which kernels use by its address. */
#ifndef TEST_SHARED_MEMORY_H
#define TEST_SHARED_MEMORY_H

#include "tests/support/fixture.h"

#include <stdbool.h>

/* Returns whether the device has it. */
bool shared_memory_is_there(const struct fixture *f);

/* So many bytes, copied from the image. Fails the test where that fails. */
void *shared_memory_new(struct fixture *f, size_t bytes, const void *image);

/* Copies all of it back, when the queue has finished. */
void shared_memory_read(struct fixture *f, void *memory, size_t bytes, void *to);

void shared_memory_free(struct fixture *f, void *memory);

#endif
