/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that one of all processes and threads holds. */
#ifndef CA_FILE_LOCK_H
#define CA_FILE_LOCK_H

#include "base/log.h"
#include "os/file.h"

/*
 * A file is locked as the system has it (os/lock.h), which gives the lock up when its holder ends, however that happens. On
 * file systems that have no locks (NFS without its daemon, Lustre mounted without them) a file beside it, <file>.held,
 * stands in: who makes it holds the lock and removes it. One that has not changed for as long as somebody waits
 * is of a process that is gone, and is removed.
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
    char *beside; /* path of the file that stands in; valid in state CA_LOCK_HELD_BY_FILE */
    /* a sentence; set in all states but CA_LOCK_HELD and CA_LOCK_NO_MEMORY */
    char why[CA_REASON_BYTES];
};

/* Takes the lock. Waits while it passes from one holder to the next, and at most that long for one
 * of them; 0: does not wait. The lock must be released in any case. */
void ca_file_lock_acquire(struct ca_file_lock *lock, const char *path, double seconds);
void ca_file_lock_release(struct ca_file_lock *lock);

/* Returns whether the lock is held, so that the file it guards may be written. */
int ca_file_lock_is_held(const struct ca_file_lock *lock);

#endif
