/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/forks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* The only state that all contexts of a process share. */
static atomic_uint forks;

static void count(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, count); /* without memory for it: none is found */
}

void ca_forks_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}

unsigned ca_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
