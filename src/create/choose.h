/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a family and its tunables for a problem, and the reason. */
#ifndef CA_CHOOSE_H
#define CA_CHOOSE_H

#include "context/context.h"
#include "families/candidate.h"
#include "problem/problem.h"
#include <clattn/plan.h>

enum { CA_MAX_CHOICES = 32 };

/* The origins of a choice, in order of preference. */
enum ca_origin {
    CA_FORCED,
    CA_OVERRIDE,
    CA_EXACT, /* the store's entry for the class */
    /* the store's entry for the class, from another driver, kernel source or set of tunables */
    CA_EXACT_STALE,
    CA_NEAREST, /* an entry of the store's nearest class */
    CA_SHIPPED,
    CA_DEFAULT /* the family suits the device, its tunables are untuned */
};

struct ca_choice {
    struct ca_candidate candidate;
    enum ca_origin origin;
};

/* The candidates that may compute a problem, the best first, without duplicates. */
struct ca_choices {
    struct ca_choice list[CA_MAX_CHOICES];
    size_t count;
};

/*
 * What clattn_plan_supports() and clattn_plan_create() share behind the check of the problem: options, and the
 * order of clattn/tuning.h. On success there is at least one choice; what does not fit or is
 * quarantined is not among them. With something forced it is the only one. On failure the list is
 * empty and reason says why.
 */
clattn_status ca_choose(const clattn_context *ctx, const struct ca_problem *p,
                        const clattn_plan_options *options, struct ca_choices *choices,
                        char *reason, size_t reason_bytes);

/* One sentence for clattn_plan_info. */
const char *ca_origin_sentence(enum ca_origin origin);

#endif
