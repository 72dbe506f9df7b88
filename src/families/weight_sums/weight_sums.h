/* SPDX-License-Identifier: Apache-2.0 */
/* The second program of forward plans that hand out sums of weights. It is no choice of a plan, and so not among the
 * families of registry.h. */
#ifndef CA_WEIGHT_SUMS_H
#define CA_WEIGHT_SUMS_H

#include "families/family.h"

extern const struct ca_family ca_weight_sums;

/* Values for a device on which those of adapt() do not work. */
void ca_weight_sums_plain(const clattn_device_info *dev, size_t *values);

#endif
