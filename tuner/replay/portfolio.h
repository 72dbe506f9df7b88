/* Seeds for one device from what was recorded on others. */
#ifndef CA_PORTFOLIO_H
#define CA_PORTFOLIO_H

#include "tuner/recording/recording.h"

/* Whether both searched the same kernel over parameters of the same names. */
bool ca_recordings_comparable(const struct ca_recording *a, const struct ca_recording *b);

/* Chooses at most max_seeds configurations of the target that together cover the others: each is
 * the one that most reduces the sum over the devices of the logarithm of the slow-down of the best
 * chosen one; among equals the one that is good on all. Others that are not comparable are
 * passed over. Returns how many, 0 without memory. */
size_t ca_portfolio_choose(const struct ca_recording *target,
                           const struct ca_recording *const *others, size_t num_others,
                           size_t *seeds, size_t max_seeds);

#endif
