/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/thread.h"

#include <pthread.h>
#include <sched.h>

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(struct ca_mutex), "no room for a mutex");
_Static_assert(sizeof(pthread_t) <= sizeof((struct ca_thread *)NULL)->room, "no room for a thread");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(struct ca_condition), "no room for a condition");

static pthread_mutex_t *mutex_of(struct ca_mutex *mutex)
{
    return (pthread_mutex_t *)mutex->room;
}

static pthread_cond_t *condition_of(struct ca_condition *condition)
{
    return (pthread_cond_t *)condition->room;
}

bool ca_mutex_init(struct ca_mutex *mutex)
{
    return pthread_mutex_init(mutex_of(mutex), NULL) == 0;
}

void ca_mutex_destroy(struct ca_mutex *mutex)
{
    pthread_mutex_destroy(mutex_of(mutex));
}

void ca_mutex_lock(struct ca_mutex *mutex)
{
    pthread_mutex_lock(mutex_of(mutex));
}

void ca_mutex_unlock(struct ca_mutex *mutex)
{
    pthread_mutex_unlock(mutex_of(mutex));
}

bool ca_condition_init(struct ca_condition *condition)
{
    return pthread_cond_init(condition_of(condition), NULL) == 0;
}

void ca_condition_destroy(struct ca_condition *condition)
{
    pthread_cond_destroy(condition_of(condition));
}

void ca_condition_wait(struct ca_condition *condition, struct ca_mutex *mutex)
{
    pthread_cond_wait(condition_of(condition), mutex_of(mutex));
}

void ca_condition_broadcast(struct ca_condition *condition)
{
    pthread_cond_broadcast(condition_of(condition));
}

static void *run(void *thread)
{
    const struct ca_thread *self = thread;

    self->run(self->argument);
    return NULL;
}

bool ca_thread_start(struct ca_thread *thread, void (*function)(void *argument), void *argument)
{
    thread->run = function;
    thread->argument = argument;
    return pthread_create((pthread_t *)thread->room, NULL, run, thread) == 0;
}

void ca_thread_join(struct ca_thread *thread)
{
    pthread_join(*(pthread_t *)thread->room, NULL);
}

void ca_yield(void)
{
    sched_yield();
}
