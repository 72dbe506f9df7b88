/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout's random numbers on the host: Philox 4x32-10, as clattn/dropout.h says. */
#ifndef CA_PHILOX_H
#define CA_PHILOX_H

#include <clattn/attention.h>

/* The four words of a counter under a key. */
void ca_philox(const cl_uint key[2], const cl_uint counter[4], cl_uint words[4]);

/* Random words below this drop their weight. */
cl_uint ca_drop_below(const clattn_problem *p);

/* The factor of the pair's weight: 0 or 1 / (1 - dropout). */
double ca_dropout_factor(const clattn_problem *p, cl_ulong seed, cl_uint offset, size_t b, size_t h,
                         size_t i, size_t j);

#endif
