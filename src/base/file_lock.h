/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that at most one thread of all processes holds. */
#ifndef CA_FILE_LOCK_H
#define CA_FILE_LOCK_H

#include "base/log.h"
#include "os/file.h"

/*
 * The lock is the system's lock on a file (os/lock.h), which the system releases when its holder ends, however that happens.
 * Some file systems have no locks (NFS without its daemon, Lustre mounted without them). There a second file, <file>.held,
 * replaces the lock: a process that creates it holds the lock, and deletes it to release the lock. If it does not change
 * while another process waits for its full time, its creator is taken for dead, and it is deleted.
 */
enum ca_file_lock_state {
    CA_LOCK_NONE, /* the file cannot be made or opened */
    CA_LOCK_NO_MEMORY,
    CA_LOCK_BUSY, /* another holder had it all the time */
    CA_LOCK_HELD,
    CA_LOCK_HELD_BY_FILE /* the file system has no locks; why says so */
};

struct ca_file_lock {
    enum ca_file_lock_state state;
    ca_file file; /* the locked file; valid in state CA_LOCK_HELD */
    char *beside; /* path of the second file; valid in state CA_LOCK_HELD_BY_FILE */
    /* a sentence; set in all states but CA_LOCK_HELD and CA_LOCK_NO_MEMORY */
    char why[CA_REASON_BYTES];
};

/* Takes the lock. Waits at most `seconds` for any one holder, but longer in all if the lock passes from one to the next. With
 * 0 it does not wait. ca_file_lock_release() must be called in any case. */
void ca_file_lock_acquire(struct ca_file_lock *lock, const char *path, double seconds);
void ca_file_lock_release(struct ca_file_lock *lock);

/* Returns whether the lock is held, so that the file it guards may be written. */
int ca_file_lock_is_held(const struct ca_file_lock *lock);

#endif
