/* SPDX-License-Identifier: Apache-2.0 */
/* Stores, of tests whose scratch folder is the cache directory, and what is said about them. */
#ifndef TEST_STORE_FOLDER_H
#define TEST_STORE_FOLDER_H

#include "store/store.h"
#include "tests/support/programs/scratch.h"

struct store_warnings {
    size_t count, errors;
    char last[1024]; /* the last warning */
};

/* The store of each test, of driver "1", and what it says: .init and .fini of a suite. */
extern struct ca_store *the_store;
extern struct store_warnings store_said;
void store_begin(void);
void store_end(void);

/* Destroys it and opens it anew. */
void store_again(void);

/* A log callback that adds to a struct store_warnings. */
void store_warn(clattn_log_level level, const char *message, void *warnings);

/* Returns how many files the scratch folder has of stores. */
size_t store_files(void);

/* Takes the lock of the one store that is there, as a writer does, and never gives it up. */
void store_files_lock(void);

/* A store of a made-up device with this driver, which must be had. */
struct ca_store *store_open(const char *folder, const char *driver,
                            struct store_warnings *warnings);

/* Puts table_entry(config, seconds), which must succeed. */
void store_put(struct ca_store *store, const char *problem_class, size_t config, double seconds);

/* Entries that the store knows, of its own driver or of all. */
size_t store_count(struct ca_store *store, int own);

/* The tunables of a class's entries, in their order: "A=1 B=2, ...". */
void store_order(struct ca_store *store, const char *problem_class, char text[512]);

/* The n-th of at least five sets of tunables of unfused, all different and all sound. */
void store_unfused_tunables(size_t n, char *text, size_t text_bytes);

#endif
