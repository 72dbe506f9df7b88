/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/thread.h"

#include <process.h>

_Static_assert(sizeof(SRWLOCK) <= sizeof(struct ca_mutex), "no room for a mutex");
_Static_assert(sizeof(CONDITION_VARIABLE) <= sizeof(struct ca_condition),
               "no room for a condition");
_Static_assert(sizeof(HANDLE) <= sizeof((struct ca_thread *)NULL)->room, "no room for a thread");

static SRWLOCK *mutex_of(struct ca_mutex *mutex)
{
    return (SRWLOCK *)mutex->room;
}

static CONDITION_VARIABLE *condition_of(struct ca_condition *condition)
{
    return (CONDITION_VARIABLE *)condition->room;
}

bool ca_mutex_init(struct ca_mutex *mutex)
{
    InitializeSRWLock(mutex_of(mutex));
    return true;
}

void ca_mutex_destroy(struct ca_mutex *mutex)
{
    (void)mutex; /* a lock of this kind owns nothing */
}

void ca_mutex_lock(struct ca_mutex *mutex)
{
    AcquireSRWLockExclusive(mutex_of(mutex));
}

void ca_mutex_unlock(struct ca_mutex *mutex)
{
    ReleaseSRWLockExclusive(mutex_of(mutex));
}

bool ca_condition_init(struct ca_condition *condition)
{
    InitializeConditionVariable(condition_of(condition));
    return true;
}

void ca_condition_destroy(struct ca_condition *condition)
{
    (void)condition;
}

void ca_condition_wait(struct ca_condition *condition, struct ca_mutex *mutex)
{
    SleepConditionVariableSRW(condition_of(condition), mutex_of(mutex), INFINITE, 0);
}

void ca_condition_broadcast(struct ca_condition *condition)
{
    WakeAllConditionVariable(condition_of(condition));
}

static unsigned __stdcall run(void *thread)
{
    const struct ca_thread *self = thread;

    self->run(self->argument);
    return 0;
}

bool ca_thread_start(struct ca_thread *thread, void (*function)(void *argument), void *argument)
{
    thread->run = function;
    thread->argument = argument;
    *(HANDLE *)thread->room = (HANDLE)_beginthreadex(NULL, 0, run, thread, 0, NULL);
    return *(HANDLE *)thread->room != NULL;
}

void ca_thread_join(struct ca_thread *thread)
{
    const HANDLE handle = *(HANDLE *)thread->room;

    WaitForSingleObject(handle, INFINITE);
    CloseHandle(handle);
}

void ca_yield(void)
{
    SwitchToThread();
}
