/* SPDX-License-Identifier: Apache-2.0 */
/* The time of one of many equal executions, all enqueued at once. */
#ifndef CLATTN_BENCH_TIMING_H
#define CLATTN_BENCH_TIMING_H

#include "bench/timing/target.h"

/* Enqueues one execution on the target's queue; `end` receives the event of its end. */
typedef bool (*timing_enqueue)(void *work, cl_event *end, struct message *why);

/* The median device time from the end of one execution to the end of the next, over `executions`
 * (1 to TIMING_MOST) after a first: all kernels of an execution and the gaps between them count,
 * the way from the host does not. Peaks and problems are timed alike, so that what disturbs the
 * machine disturbs both. Where the device's clock stands still (rusticl's does), the host's: the
 * whole time over all executions, the way to the device included. */
#define TIMING_MOST 256
bool timing_median(const struct target *target, timing_enqueue enqueue, void *work,
                   size_t executions, double *seconds, struct message *why);

#endif
