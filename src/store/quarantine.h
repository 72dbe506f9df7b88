/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons to quarantine a configuration: failures that a program and driver repeat every time. */
#ifndef CA_QUARANTINE_H
#define CA_QUARANTINE_H

#include "store/tuning_table.h"

/* The kind of failure. */
enum ca_quarantine {
    CA_QUARANTINE_SOURCE, /* the compiler named an error in the source */
    CA_QUARANTINE_WRONG,
    CA_QUARANTINE_CRASH, /* the process ended twice while the program compiled or ran */
    CA_QUARANTINE_HANG,  /* it took too long twice */
    CA_NUM_QUARANTINES
};

/* Prints the reason of a ban: a phrase that says what failed, then how it was noticed (how may be ""). */
void ca_quarantine_reason(enum ca_quarantine what, const char *how, char *reason,
                          size_t reason_bytes);

/* Returns whether a reason is such a phrase. Earlier versions also banned a candidate that once
 * ran out of memory. */
int ca_quarantine_lasts(const char *reason);

/* Removes all other bans of a document. */
void ca_quarantine_heal(struct ca_table *table);

#endif
