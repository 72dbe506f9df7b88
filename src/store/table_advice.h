/* SPDX-License-Identifier: Apache-2.0 */
/* The advice of a table of tuning results for a problem on a device that it may not hold. */
#ifndef CA_TABLE_ADVICE_H
#define CA_TABLE_ADVICE_H

#include "families/candidate.h"
#include "store/tuning_table.h"

/* Both accept NULL for a table that could not be allocated. */

/* Finds the fastest configurations on this device, whatever its driver. Those of the problem's
 * class come first, then those of near classes, the nearest first. It gives at most `most`
 * different candidates that fit and that the table does not ban; *count is their number. Returns
 * CLATTN_SUCCESS or CLATTN_OUT_OF_MEMORY. */
clattn_status ca_table_nearest(const struct ca_table *table, const struct ca_problem *p,
                               const clattn_device_info *dev, struct ca_candidate *candidates,
                               size_t most, size_t *count);

/*
 * Chooses at most `most` different candidates that fit, one after the other. For each device and class of the table, the loss
 * is the logarithm of the time of the best chosen candidate over the fastest time. The next candidate is the one that most
 * reduces the sum of losses. Devices and classes near this device and problem have larger weights. Returns the number of
 * candidates; 0 without memory.
 */
size_t ca_table_portfolio(const struct ca_table *table, const struct ca_problem *p,
                          const clattn_device_info *dev, struct ca_candidate *seeds, size_t most);

#endif
