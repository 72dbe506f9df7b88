/* SPDX-License-Identifier: Apache-2.0 */
/* A covering array: rows of options such that every pair of options that a family takes together
 * stands in some row. All 2^20 combinations of 20 options would be too many programs; mistakes need
 * two options that meet, seldom three (D. M. Cohen et al., "The AETG System", 1997). */
#ifndef TEST_OPTION_PAIRS_H
#define TEST_OPTION_PAIRS_H

#include "tests/trials/random_problem.h"

enum { PAIRS_MOST_ROWS = 64 };

/* The rows for a family on a device, drawn by a seed. What the options leave open (dims, how much
 * softcap) is drawn too. Returns how many; 0: the family takes nothing there. */
size_t option_pairs(const struct ca_family *family, const clattn_device_info *device, uint64_t seed,
                    struct problem_kind rows[PAIRS_MOST_ROWS]);

/* Every nth row is part of a run: with seeds first .. first + runs - 1 all of them are. */
size_t option_pairs_runs(size_t rows, size_t rows_of_a_run);

/* The number of pairs of options that the family takes, each alone with nothing else, and of
 * those that stand in none of the rows. They are counted without regard to how rows are drawn. */
struct pairs_missing {
    size_t pairs, missing;
    char first[96]; /* of those missing, in words */
} option_pairs_missing(const struct ca_family *family, const clattn_device_info *device,
                       const struct problem_kind *rows, size_t count);

#endif
