/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit of multiplication has in every family that it is a unit of. */
#ifndef CA_UNIT_MEMBERS_H
#define CA_UNIT_MEMBERS_H

#include <clattn/device.h>
#include <clattn/problem.h>

/* Why p has no products of bf16 pairs (cl/bf16/pairs.h), by tiles or not; NULL if it has. */
const char *ca_bf16_pairs_refusal(const clattn_problem *p);

/* These implement ca_family.options: EMULATE, which is no tunable, since the device decides. */
const char *ca_bf16_pairs_options(const size_t *values, const clattn_device_info *dev);
const char *ca_amx_options(const size_t *values, const clattn_device_info *dev);

/* Implements ca_family.refused_by_system: asks for the tiles of AMX unless they are emulated. */
const char *ca_amx_refused_by_system(const clattn_device_info *dev);

/* These implement ca_family.preference, of families that suit all problems alike. A unit that a device lacks, and
 * that is emulated there, is never taken of itself: that is for tests. Pairs are behind families that compute in
 * f32 where the instruction is slow. */
int ca_vector_preference(const clattn_problem *p, const clattn_device_info *dev);
int ca_bf16_pairs_preference(const clattn_problem *p, const clattn_device_info *dev);
int ca_amx_preference(const clattn_problem *p, const clattn_device_info *dev);
int ca_item_preference(const clattn_problem *p, const clattn_device_info *dev);
int ca_mma_preference(const clattn_problem *p, const clattn_device_info *dev);
/* ... of an operation's only family, and of one to be read or tried. */
int ca_only_preference(const clattn_problem *p, const clattn_device_info *dev);
int ca_forced_preference(const clattn_problem *p, const clattn_device_info *dev);

/* The preference of a family that has `with` on a device where the unit is fast. */
int ca_bf16_pairs_preference_with(const clattn_device_info *dev, int with);
int ca_amx_preference_with(const clattn_device_info *dev, int with);

#endif
