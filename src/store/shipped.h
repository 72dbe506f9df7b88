/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tuning results that is shipped with the library, src/store/shipped.json. */
#ifndef CA_SHIPPED_H
#define CA_SHIPPED_H

#include "families/candidate.h"
#include "os/thread.h"
#include "store/tuning_table.h"

struct ca_shipped {
    const char *document; /* the one embedded at build time; tests put another here */
    struct ca_mutex lock; /* guards parsed, and the table until it is */
    int parsed;
    struct ca_table table; /* never changes once it is parsed */
};

/* Nothing is read yet: the table is parsed when it is first asked. NULL without memory. Safe to
 * share between threads. */
struct ca_shipped *ca_shipped_create(void);
void ca_shipped_destroy(struct ca_shipped *shipped);

/* What was fastest on this device, whatever its driver, for the problem's class or the nearest one
 * that is near enough: at most `most` candidates that fit, the best first, *count of them. p is normal.
 * CLATTN_OUT_OF_MEMORY or CLATTN_SUCCESS. */
clattn_status ca_shipped_find(struct ca_shipped *shipped, const clattn_problem *p,
                              const clattn_device_info *dev, struct ca_candidate *candidates,
                              size_t most, size_t *count);

/* At most `most` seeds for tuning, from all devices and classes of the table: candidates that fit
 * the problem and the device, chosen greedily so that each device has one that was good there for a
 * class near this one; those that cover the most come first. p is normal. 0 without memory. */
size_t ca_shipped_portfolio(struct ca_shipped *shipped, const clattn_problem *p,
                            const clattn_device_info *dev, struct ca_candidate *seeds, size_t most);

#endif
