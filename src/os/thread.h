/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, and what they share: locks, conditions, a pause. */
#ifndef CA_THREAD_H
#define CA_THREAD_H

#include <stdbool.h>

/* Room for the system's own types, which nobody else looks into. */
struct ca_mutex {
    _Alignas(16) unsigned char room[64];
};
struct ca_condition {
    _Alignas(16) unsigned char room[64];
};

/* The functions that begin something return false without memory. */
bool ca_mutex_init(struct ca_mutex *mutex);
void ca_mutex_destroy(struct ca_mutex *mutex);
void ca_mutex_lock(struct ca_mutex *mutex);
void ca_mutex_unlock(struct ca_mutex *mutex);

bool ca_condition_init(struct ca_condition *condition);
void ca_condition_destroy(struct ca_condition *condition);
/* Gives the mutex up until the condition is broadcast, or for no reason at all. */
void ca_condition_wait(struct ca_condition *condition, struct ca_mutex *mutex);
void ca_condition_broadcast(struct ca_condition *condition);

/* A thread; the struct must not move until the thread is joined. Starting returns false if the
 * system has no more threads. */
struct ca_thread {
    void (*run)(void *argument);
    void *argument;
    _Alignas(16) unsigned char room[16];
};
bool ca_thread_start(struct ca_thread *thread, void (*run)(void *argument), void *argument);
void ca_thread_join(struct ca_thread *thread);

/* Lets other threads go first. */
void ca_yield(void);

#endif
