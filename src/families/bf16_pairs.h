/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of families with products of bf16 pairs (cl/bf16/pairs.h). */
#ifndef CA_BF16_PAIRS_H
#define CA_BF16_PAIRS_H

#include <clattn/device.h>
#include <clattn/problem.h>

/* Why p has no such products; NULL if it has. */
const char *ca_bf16_pairs_refusal(const clattn_problem *p);

/* Implements ca_family.options: EMULATE, which is no tunable, since the device decides. */
const char *ca_bf16_pairs_options(const size_t *values, const clattn_device_info *dev);

/* The preference of a family that has `with` on a device with the instruction. Where it would be emulated
 * it is never taken of itself: that is for tests; where it is slow, behind families that compute in f32. */
int ca_bf16_pairs_preference(const clattn_device_info *dev, int with);

#endif
