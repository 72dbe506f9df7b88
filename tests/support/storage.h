/* SPDX-License-Identifier: Apache-2.0 */
/* Storage of values: bench/judge/values.h, and further questions of tests. */
#ifndef TEST_STORAGE_H
#define TEST_STORAGE_H

#include "bench/judge/values.h"
#include "tests/support/rng.h"
#include <clattn/problem.h>
#include <stddef.h>

/* Fills block `number` of a quantized tensor: its scale, which is rounded to binary16, and random codes. */
void storage_store_block(clattn_cache cache, void *base, size_t number, double scale,
                         struct rng *r);

#endif
