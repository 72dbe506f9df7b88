/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning results of one device and driver on disk, shared with other processes. */
#ifndef CA_STORE_H
#define CA_STORE_H

#include "base/log.h"
#include "families/candidate.h"
#include "store/quarantine.h"

struct ca_store;

/* The seconds that a writer waits for another process that holds the lock. Readers never wait. */
enum { CA_STORE_WAITS = 10 };

/* Opens the store in a cache directory; without one (NULL) it is in memory only. Nothing is read yet. The log and the needed
 * facts of dev are copied. Returns NULL without memory. */
struct ca_store *ca_store_create(const char *cache_directory, const clattn_device_info *dev,
                                 const struct ca_log *log);
void ca_store_destroy(struct ca_store *store);

/* The path of the store's file; "" if it has none. */
const char *ca_store_path(const struct ca_store *store);

/* Writes what could not be written before. True if the file holds all that was put into the store, or the store has no
 * file. */
int ca_store_save(struct ca_store *store);

/*
 * Locks the store for this thread, reads the file if it has changed since, and gives the document:
 * this device's table with this driver (NULL if there is none) and, in `table`, all that is known
 * of the device, other drivers' too. Valid until ca_store_unlock(); nothing else of the store may
 * be called in between. A damaged file is set aside with a warning, or ignored while another process writes.
 */
struct ca_view {
    const struct ca_table *table;
    const struct ca_device_table *own;
    clattn_status status; /* CLATTN_OUT_OF_MEMORY: the document may lack what was added lately */
};
struct ca_view ca_store_lock(struct ca_store *store);
void ca_store_unlock(struct ca_store *store);

/* Adds entries to a class and keeps its CA_TABLE_TOP fastest; entries with hashes other than the
 * family's of today are dropped first. The entries are copied. Other processes' additions since are
 * kept. An unwritable file, or a lock that cannot be had, causes one warning per store, and the
 * entries stay in memory until they can be written. */
clattn_status ca_store_put(struct ca_store *store, const char *problem_class,
                           const struct ca_entry *entries, size_t count);

/* Bans a configuration, for a reason that lasts (quarantine.h); a ban that is there already keeps its
 * own. Nobody waits for that: what cannot be written at once is by the next one who writes, or in the end. */
clattn_status ca_store_ban(struct ca_store *store, const struct ca_banned *banned);

/* Bans a candidate that does not work for problems like p. If the ban cannot be kept, that is no error. */
void ca_store_ban_candidate(struct ca_store *store, const struct ca_candidate *candidate,
                            const clattn_problem *p, enum ca_quarantine what, const char *how);

/* Merges a document's tables of this device. CLATTN_FILE_ERROR if the store cannot be written. */
clattn_status ca_store_merge(struct ca_store *store, const struct ca_table *from, size_t *added);

/* Removes a class with the bans on candidates for problems like it, or everything of this device if
 * it is NULL. */
clattn_status ca_store_forget(struct ca_store *store, const char *problem_class, size_t *removed);

/* The current time in the form of entries. */
enum { CA_WHEN_TEXT = 24 };
void ca_store_now(char text[CA_WHEN_TEXT]);

#endif
