/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's score and mask functions in a self-check. The host cannot compute them, so the device does, in a kernel that
 * does nothing else. Answers are computed twice. The first pass collects the calls, and takes functions to change nothing. Then
 * the device computes all calls, and the second pass looks up their results in the same order. */
#ifndef CA_FUNCTION_CALLS_H
#define CA_FUNCTION_CALLS_H

#include "problem/function.h"
#include "selfcheck/case.h"

struct ca_function_calls;

/* A pair, and the queries and keys of its batch that are in use. */
struct ca_function_pair {
    size_t b, h, i, j, queries, keys;
};

/* ca_function_calls_begin() begins to collect calls, and returns 0 without memory. ca_function_calls_free() accepts NULL. */
int ca_function_calls_begin(struct ca_trust_case *c);
void ca_function_calls_free(struct ca_function_calls *calls);

/* Computes the collected calls on the device; from then on their results are looked up. Without a device or without calls it
 * does nothing. */
clattn_status ca_function_calls_compute(clattn_context *ctx, struct ca_trust_case *c);

/* Returns whether the mask function leaves the pair visible. */
int ca_function_sees(const struct ca_trust_case *c, struct ca_function_pair pair);

/* The elements of dfunction that a pair's score depends on, and its derivatives by them. */
struct ca_function_loads {
    size_t count;
    size_t place[CA_FUNCTION_LOADS];
    struct ca_bounded derivative[CA_FUNCTION_LOADS];
};

/* The score after the function of scores, from that before, and its derivatives. */
struct ca_bounded ca_function_scores(const struct ca_trust_case *c, struct ca_function_pair pair,
                                     struct ca_bounded s, struct ca_bounded *derivative,
                                     struct ca_function_loads *loads);

#endif
