/* SPDX-License-Identifier: Apache-2.0 */
/* A file lock of the operating system: it is released when its holder ends, in whatever way. */
#ifndef CA_LOCK_H
#define CA_LOCK_H

#include "os/file.h"

enum ca_lock {
    CA_LOCK_TAKEN,
    CA_LOCK_OTHERS, /* another holder has the lock, in this process or another */
    CA_LOCK_MISSING /* the file system has no locks; errno says why */
};

/* Takes the lock for this open file if it is free, without waiting. */
enum ca_lock ca_lock_try(ca_file file);

/* Releases the lock, even if a process that was forked meanwhile has the file as well. */
void ca_lock_release(ca_file file);

/* The number of the process that has it; 0 where the system does not tell. */
long ca_lock_holder(ca_file file);

#endif
