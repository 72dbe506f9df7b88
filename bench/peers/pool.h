/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share out equal tasks among themselves. */
#ifndef CLATTN_BENCH_PEER_POOL_H
#define CLATTN_BENCH_PEER_POOL_H

#include "cli/message.h"

#include <stddef.h>

/* Does task `index`; `worker` counts the threads from 0, which is the caller's. */
typedef void pool_task(void *work, size_t index, unsigned worker);

struct pool;

/* `threads` of them, the caller's included; NULL if the system has no more. */
struct pool *pool_open(unsigned threads, struct message *why);

/* Does tasks 0 to count - 1 and returns when all are done. */
void pool_run(struct pool *pool, pool_task *task, void *work, size_t count);

void pool_close(struct pool *pool);

#endif
