/* SPDX-License-Identifier: Apache-2.0 */
/* A file's lock, of which the system takes care: it is free again when its holder ends, however that happens. */
#ifndef CA_LOCK_H
#define CA_LOCK_H

#include "os/file.h"

enum ca_lock {
    CA_LOCK_TAKEN,
    CA_LOCK_OTHERS, /* another holder has the lock, in this process or another */
    CA_LOCK_MISSING /* the file system has no locks; errno says why */
};

/* Takes it for this open file if it is free, which needs no waiting. */
enum ca_lock ca_lock_try(ca_file file);

/* Gives it up, even if a process that was forked meanwhile has the file as well. */
void ca_lock_release(ca_file file);

/* The number of the process that has it; 0 where the system does not tell. */
long ca_lock_holder(ca_file file);

#endif
