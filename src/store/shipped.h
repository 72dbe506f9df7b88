/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tuning results that is shipped with the library, src/store/shipped.json. */
#ifndef CA_SHIPPED_H
#define CA_SHIPPED_H

#include "os/thread.h"
#include "store/tuning_table.h"

struct ca_shipped {
    const char *document; /* the one embedded at build time; tests put another here */
    struct ca_mutex lock; /* guards parsed, and the table until it is parsed */
    int parsed;
    struct ca_table table; /* never changes once it is parsed */
};

/* Creates the table, which is parsed at its first use. NULL without memory. Safe to share between
 * threads. */
struct ca_shipped *ca_shipped_create(void);
void ca_shipped_destroy(struct ca_shipped *shipped);

/* The table; NULL without memory, and then it is read when it is asked next. A damaged one is empty. */
const struct ca_table *ca_shipped_table(struct ca_shipped *shipped);

#endif
