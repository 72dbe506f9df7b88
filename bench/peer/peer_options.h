/* SPDX-License-Identifier: Apache-2.0 */
/* Options that many libraries lack, so that each peer says which of them it takes
 * (peers/README.md). */
#ifndef CLATTN_BENCH_PEER_OPTIONS_H
#define CLATTN_BENCH_PEER_OPTIONS_H

#include <clattn/problem.h>
#include <jansson.h>

/* Returns whether the problem has each of the options that every peer is told of, an object of
 * their names in clattn_problem; NULL without memory. */
json_t *peer_flags(const clattn_problem *problem);

/* A bit for each option that the list of words has; words that are not known count for nothing. */
unsigned peer_options_read(const json_t *list);

/* Returns NULL if a peer that takes these options can be asked for the problem, else why not: it
 * does not take one, or it is told of none such. */
const char *peer_options_refuse(unsigned options, const clattn_problem *problem);

#endif
