/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that kernels are compiled for without one being there. */
#ifndef OFFLINE_TARGETS_H
#define OFFLINE_TARGETS_H

#include <clattn/device.h>

enum vendor { AMD, NVIDIA, INTEL };

/* One compute unit: a CU of AMD's, half of RDNA's work-group processor; NVIDIA's multiprocessor;
 * Intel's Xe core or dual subslice. */
struct target {
    const char *name, *profile; /* as compilers call it; its facts */
    enum vendor vendor;
    unsigned wave;              /* work-items that go together; Intel: the most */
    unsigned simds, most_waves; /* register files, and waves on each */
    unsigned registers;         /* of one file for each lane; Intel: for all */
    unsigned granule;           /* registers are given in such steps */
    unsigned most_registers;    /* of one work-item */
    unsigned most_groups;
    size_t local_bytes, group_bytes; /* local memory, and what a group costs beside its own */
};

/* NULL past the last. */
const struct target *target_at(size_t index);

/* NULL if there is none of this name. */
const struct target *target_find(const char *name);

/* What a driver would say of such a device: the profile in the folder. False, and it says why, if it
 * cannot be read. */
int target_device(const struct target *t, const char *folder, clattn_device_info *dev);

/* How many groups are resident, and how many waves that makes on each register file. lanes: of a
 * wave, if the compiler has chosen other than the target's; else 0. */
struct occupancy {
    unsigned groups;
    double waves;
};
struct occupancy target_occupancy(const struct target *t, unsigned registers, size_t local_bytes,
                                  size_t items, unsigned lanes);

#endif
