/* SPDX-License-Identifier: Apache-2.0 */
/* A way to compute a problem: a family with a value for each of its tunables. */
#ifndef CA_CANDIDATE_H
#define CA_CANDIDATE_H

#include "families/family.h"
#include "problem/problem.h"

struct ca_candidate {
    const struct ca_family *family;
    size_t values[CA_MAX_TUNABLES]; /* values past the family's last tunable are 0 */
};

int ca_candidates_equal(const struct ca_candidate *a, const struct ca_candidate *b);

/* The size of a text "FAMILY NAME=value ...". */
enum { CA_CANDIDATE_TEXT = CA_TUNABLES_TEXT + 64 };
void ca_candidate_print(const struct ca_candidate *candidate, char text[CA_CANDIDATE_TEXT]);

/* Reads that form; tunables that are missing get what suits the problem and the device. False, with
 * the reason, if it does not parse or the candidate does not fit. */
int ca_candidate_parse(const char *text, const struct ca_problem *p, const clattn_device_info *dev,
                       struct ca_candidate *candidate, char *reason, size_t reason_bytes);

/* Writes the refusal of an unknown name: the families that the operation has. */
void ca_candidate_refuse_family(const char *name, clattn_operation operation, char *reason,
                                size_t reason_bytes);

/* Returns whether tuning one problem may choose the family for another. It may not if the second
 * has a better family that cannot compute the first (an instruction for bf16 is of no use to f32):
 * they were never compared. */
int ca_candidate_was_compared(const struct ca_candidate *found, const struct ca_problem *there,
                              const struct ca_problem *here, const clattn_device_info *dev);

/* Applies the result of tuning one problem to a similar one: tunables that were left as the facts
 * of problem and device suggest follow the facts here, too; the others keep the tuned values. If
 * these do not fit together, all tuned values are kept. */
struct ca_candidate ca_candidate_carried(const struct ca_candidate *found,
                                         const struct ca_problem *there,
                                         const struct ca_problem *here,
                                         const clattn_device_info *dev);

#endif
