/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a device for the kernels of all families. */
#ifndef CA_DEVICE_LIMITS_H
#define CA_DEVICE_LIMITS_H

#include "families/family.h"
#include "problem/problem.h"

/* The launch of a stage on a device. Independent items form groups as large as the device allows,
 * at most 64; those past the last item do nothing. */
struct ca_ndrange ca_stage_range(const struct ca_stage *stage, const struct ca_problem *p,
                                 const size_t *values, const clattn_device_info *dev);

/* Returns NULL if every stage's work-groups, the workspace and, with 32-bit addresses, tensors and
 * ranges are within the device's limits, else why not. The values passed reject(). */
const char *ca_limits_refusal(const struct ca_family *family, const struct ca_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes);

#endif
