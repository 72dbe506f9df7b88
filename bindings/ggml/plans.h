/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of a backend, by shape; the one that was not used for longest makes room for a new
 * one. */
#ifndef CLATTN_GGML_PLANS_H
#define CLATTN_GGML_PLANS_H

#include "operation.h"

#define MOST_PLANS 64

struct plan_entry {
    struct shape shape;
    clattn_plan *plan; /* NULL: it could not be made, and is not tried again. */
    size_t workspace_bytes;
    size_t used; /* When, as counted in struct plans. */
};

struct plans {
    clattn_context *context; /* Borrowed. */
    struct plan_entry entry[MOST_PLANS];
    size_t count;
    size_t clock;
    size_t made; /* Ever. */
};

/* The shape's, made if there is none yet; its plan may be NULL. */
const struct plan_entry *plans_get(struct plans *plans, const struct shape *shape);

/* No execution may be under way. */
void plans_free(struct plans *plans);

#endif
