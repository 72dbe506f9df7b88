/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up tuning documents. */
#ifndef TEST_TABLES_H
#define TEST_TABLES_H

#include "store/tuning_table.h"
#include "tests/support/rng.h"

/* A device that is not at hand: number n of the kind, with a driver of this version. */
clattn_device_info table_device_info(int n, const char *driver);

/* An entry for a configuration of unfused, with hashes of today's kernels; its texts are static or
 * in the struct that is given: it lives as long as that. */
struct made_entry {
    char tunables[256], source[17], declaration[17];
    double samples[3];
    struct ca_entry entry;
};
const struct ca_entry *table_entry(struct made_entry *made, size_t config, double seconds);

/* A table of few devices, classes and configurations, so that two of them have much in common. */
struct ca_table table_random(struct rng *rng);

/* The printed form, which must be had; the caller frees it. */
char *table_text(const struct ca_table *table);

/* Parses what must parse. */
struct ca_table table_parse(const char *text);

#endif
