/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLATTN_BENCH_DUEL_H
#define CLATTN_BENCH_DUEL_H

#include "internal.h"

/* "faster" or "slower" than the first where the interval of the ratio says so, else "tie". */
const char *duel_verdict(const struct ca_interval *ratio);

#endif
