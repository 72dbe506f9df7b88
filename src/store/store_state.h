/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the store's readers (store.c) and writers (store_change.c) share. */
#ifndef CA_STORE_STATE_H
#define CA_STORE_STATE_H

#include "os/thread.h"
#include "store/store.h"
#include "store/store_file.h"

#include <stdatomic.h>

/* A warning that is logged after the lock is released: the caller's callback may take locks. */
struct sentence {
    struct sentence *next;
    char text[CA_LOG_BYTES];
};

struct ca_store {
    struct ca_mutex lock;
    struct ca_log log;
    clattn_device_info dev;
    char stem[CA_STEM_TEXT];
    char *folder, *lock_path;    /* NULL: the store lives in memory only */
    struct ca_store_file *files; /* that of this driver first, then those of other drivers */
    size_t num_files;
    struct ca_table unsaved; /* entries that could not be written to the own file */
    struct ca_table view;    /* the union of all, of this device */
    int view_is_old;
    int warned;   /* not 0: a warning was given that the file cannot be written */
    int told;     /* not 0: it was logged that a second file replaces the lock */
    double waits; /* most seconds to wait for the lock of all processes; CA_STORE_WAITS */
    /* not 0: the last wait for the lock ended without it; no thread waits again until it was free */
    atomic_int had_to_wait;
    struct sentence *sentences;
};

/* Takes the lock of this process's threads, or releases it and logs the kept warnings. */
void ca_store_enter(struct ca_store *store);
void ca_store_leave(struct ca_store *store);

/* Keeps a warning for ca_store_leave(): formats like printf. */
void ca_store_say(struct ca_store *store, const char *format, ...) CA_PRINTF(2, 3);

/* Reads what has changed since; `locked`: the lock of all processes is held, and the own file is
 * read whatever its date says. Only CLATTN_OUT_OF_MEMORY is a failure. */
clattn_status ca_store_refresh(struct ca_store *store, int locked);

/* Makes the view anew if it is old. False without memory. */
int ca_store_make_view(struct ca_store *store);

#endif
