/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up tuning documents. */
#ifndef TEST_TABLES_H
#define TEST_TABLES_H

#include "store/store_entry.h"
#include "tests/support/rng.h"

/* A device that is not at hand: number n of the kind, with a driver of this version. */
clattn_device_info table_device_info(int n, const char *driver);

/* An entry of today's kernels that was never measured, for a candidate or for a configuration of unfused that
 * no kernel has, "A=config B=2". Its texts are static or in the struct that is given: it lives as long as that. */
struct made_entry {
    struct ca_candidate_texts texts;
    double samples[3];
    struct ca_entry entry;
};
const struct ca_entry *table_entry(struct made_entry *made, size_t config, double seconds);
const struct ca_entry *table_entry_of(struct made_entry *made, const struct ca_candidate *candidate,
                                      double seconds);

/* Makes it one of another kernel source. */
void table_stale(struct made_entry *made);

/* A ban of an entry's configuration; borrows all texts. */
struct ca_banned table_banned(const struct ca_entry *entry, const char *problem_class,
                              const char *reason);

/* A candidate from "FAMILY NAME=value ...", which must fit the problem. */
struct ca_candidate table_candidate(const char *text, const clattn_problem *p,
                                    const clattn_device_info *dev);

/* A table of few devices, classes and configurations, so that two of them have much in common. */
struct ca_table table_random(struct rng *rng);

/* The printed form, which must be had; the caller frees it. */
char *table_text(const struct ca_table *table);

/* Parses what must parse. */
struct ca_table table_parse(const char *text);

#endif
