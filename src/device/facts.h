/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a device's facts, access to them, and narrowing them to a profile. */
#ifndef CA_FACTS_H
#define CA_FACTS_H

#include <clattn/device.h>

/* Returns whether the device has an extension of just this name. */
int ca_facts_have(const clattn_device_info *dev, const char *extension);

/* Returns whether the driver is PoCL. Some properties of PoCL are no facts of a device: its
 * compiler options, its form of binaries, and its errors. */
int ca_facts_of_pocl(const clattn_device_info *dev);

/* A fact that is a number. */
struct ca_fact {
    const char *name;     /* the member's name in clattn_device_info and in profiles */
    size_t offset, bytes; /* the member's place and size in clattn_device_info */
    cl_ulong least, most;
    int narrows; /* not 0: the fact is a limit, which a profile can only lower */
};

/* The index-th number of clattn_device_info, of which max_work_item_sizes is left out; NULL past the last. */
const struct ca_fact *ca_fact_at(size_t index);
cl_ulong ca_fact_get(const struct ca_fact *fact, const clattn_device_info *dev);
void ca_fact_set(const struct ca_fact *fact, clattn_device_info *dev, cl_ulong value);

/* False, with the reason, if a fact is beyond its limits or contradicts another. */
int ca_facts_check(const clattn_device_info *dev, char *reason, size_t reason_bytes);

/* Narrows dev to what both it and the profile have, and describes it as the profile. Members about
 * its owner (handles, platform, driver, version texts) stay. Doing it twice changes nothing. */
void ca_facts_narrow(clattn_device_info *dev, const clattn_device_info *profile);

#endif
