/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of families with products by tiles of AMX (cl/bf16/tiles.h). */
#ifndef CA_AMX_H
#define CA_AMX_H

#include <clattn/device.h>
#include <clattn/problem.h>

/* Implements ca_family.options: EMULATE, which is no tunable, since the device decides. */
const char *ca_amx_options(const size_t *values, const clattn_device_info *dev);

/* Implements ca_family.refused_by_system: asks for the tiles unless they are emulated. */
const char *ca_amx_refused_by_system(const clattn_device_info *dev);

/* The preference of a family that has `with` on a device with the instruction. Where it would be emulated
 * it is never taken of itself: that is for tests. */
int ca_amx_preference(const clattn_device_info *dev, int with);

#endif
