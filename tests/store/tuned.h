/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning results that were never measured, for tests of what is made of them. */
#ifndef TEST_TUNED_H
#define TEST_TUNED_H

#include "families/candidate.h"
#include "store/store_entry.h"

/* One entry and the texts it points to: not to be copied. */
struct tuned {
    struct ca_entry entry;
    struct ca_candidate_texts texts;
    double samples[3];
};

/* An entry of today's kernels. */
void tuned_entry(struct tuned *t, const struct ca_candidate *candidate, double seconds);

/* Makes it one of another kernel source. */
void tuned_stale(struct tuned *t);

/* A candidate from "FAMILY NAME=value ...", which must fit the problem. */
struct ca_candidate tuned_candidate(const char *text, const clattn_problem *p,
                                    const clattn_device_info *dev);

/* A device's table without classes; borrows the device's texts. */
struct ca_device_table tuned_device(const clattn_device_info *dev);

#endif
