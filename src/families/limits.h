/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a device for the kernels of all families. */
#ifndef CA_DEVICE_LIMITS_H
#define CA_DEVICE_LIMITS_H

#include "families/family.h"

/* NULL if every stage's work-groups, the workspace and, with 32-bit addresses, tensors and ranges
 * are within the device's limits, else why not. p is normal; the values passed reject(). */
const char *ca_limits_refusal(const struct ca_family *family, const clattn_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes);

#endif
