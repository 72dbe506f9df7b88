/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between candidates and the entries of the store. */
#ifndef CA_STORE_ENTRY_H
#define CA_STORE_ENTRY_H

#include "families/candidate.h"
#include "families/registry.h"
#include "store/tuning_table.h"

/* Returns whether an entry was measured with the kernel source and tunables of today. */
int ca_entry_is_fresh(const struct ca_entry *entry);

/* The candidate that an entry names. False if there is no such family, or a tunable is unknown,
 * missing or has a value that is none of its candidates. */
int ca_entry_candidate(const struct ca_entry *entry, struct ca_candidate *candidate);

/* The texts of a candidate in entries and bans, with today's hashes. */
struct ca_candidate_texts {
    char family[64], tunables[CA_TUNABLES_TEXT], source[CA_HASH_TEXT], declaration[CA_HASH_TEXT];
};
void ca_candidate_texts(const struct ca_candidate *candidate, struct ca_candidate_texts *texts);

/* Returns whether a ban holds for problems whose programs are like those of the representative
 * p. */
int ca_banned_for(const struct ca_banned *banned, const clattn_problem *p);

/* A table's ban of a candidate of today's kernels, for problems whose programs are like those of the
 * representative p; NULL if there is none. */
const struct ca_banned *ca_candidate_ban(const struct ca_device_table *table,
                                         const struct ca_candidate *candidate,
                                         const clattn_problem *p);

#endif
