/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that no plan has, as races.c runs those of plans. */
#ifndef TEST_RACE_CALLS_H
#define TEST_RACE_CALLS_H

#include <clattn/clattn.h>

/* Makes the n-th of these calls and compares with the host, bit by bit: 1 if all went well, 0 if
 * not, -1 if there are not so many. Buffers have exactly the size that they need. */
int race_call(clattn_context *context, size_t n);

#endif
