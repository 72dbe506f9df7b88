/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/pool.h"
#include "os/thread.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { YIELDS = 4000 }; /* About a millisecond: the next run follows soon or not at all. */

struct pool {
    struct ca_mutex mutex;
    struct ca_condition changed;
    atomic_uint generation; /* Number of the present run. */
    atomic_size_t next;
    atomic_uint working; /* Threads at work, without the caller's. */
    bool ending;
    pool_task *task;
    void *work;
    size_t count;
    struct ca_thread *threads;
    unsigned started;     /* Threads started, without the caller's. */
    atomic_uint numbered; /* Threads that have taken a number so far. */
};

static void work_off(struct pool *pool, unsigned worker)
{
    size_t index;

    while ((index = atomic_fetch_add(&pool->next, 1)) < pool->count)
        pool->task(pool->work, index, worker);
}

/* Until there is another run than the one that was seen last. */
static void wait_for_run(struct pool *pool, unsigned *seen)
{
    for (int n = 0; n < YIELDS && atomic_load(&pool->generation) == *seen; n++)
        ca_yield();
    if (atomic_load(&pool->generation) == *seen) {
        ca_mutex_lock(&pool->mutex);
        while (atomic_load(&pool->generation) == *seen)
            ca_condition_wait(&pool->changed, &pool->mutex);
        ca_mutex_unlock(&pool->mutex);
    }
    *seen = atomic_load(&pool->generation);
}

static void live(void *argument)
{
    struct pool *pool = argument;
    const unsigned worker = atomic_fetch_add(&pool->numbered, 1) + 1; /* 0 is the caller. */
    unsigned seen = 0;

    for (;;) {
        wait_for_run(pool, &seen);
        if (pool->ending)
            return;
        work_off(pool, worker);
        atomic_fetch_sub(&pool->working, 1);
    }
}

static void announce(struct pool *pool)
{
    ca_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->generation, 1);
    ca_condition_broadcast(&pool->changed);
    ca_mutex_unlock(&pool->mutex);
}

void pool_run(struct pool *pool, pool_task *task, void *work, size_t count)
{
    pool->task = task;
    pool->work = work;
    pool->count = count;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->working, pool->started);
    if (pool->started > 0)
        announce(pool);
    work_off(pool, 0);
    while (atomic_load(&pool->working) > 0)
        ca_yield();
}

struct pool *pool_open(unsigned threads, struct message *why)
{
    struct pool *pool = calloc(1, sizeof *pool);

    if (pool != NULL)
        pool->threads = calloc(threads, sizeof *pool->threads);
    if (pool == NULL || pool->threads == NULL) {
        free(pool);
        message_set(why, "no memory for %u threads", threads);
        return NULL;
    }
    ca_mutex_init(&pool->mutex);
    ca_condition_init(&pool->changed);
    for (; pool->started + 1 < threads; pool->started++)
        if (!ca_thread_start(&pool->threads[pool->started], live, pool)) {
            message_set(why, "the system gives no more than %u of %u threads", pool->started + 1,
                        threads);
            pool_close(pool);
            return NULL;
        }
    return pool;
}

void pool_close(struct pool *pool)
{
    if (pool == NULL)
        return;
    pool->ending = true;
    announce(pool);
    for (unsigned n = 0; n < pool->started; n++)
        ca_thread_join(&pool->threads[n]);
    ca_condition_destroy(&pool->changed);
    ca_mutex_destroy(&pool->mutex);
    free(pool->threads);
    free(pool);
}
