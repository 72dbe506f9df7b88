/* GPUs that kernels are compiled for without one being there. */
#ifndef OFFLINE_TARGETS_H
#define OFFLINE_TARGETS_H

#include <clattn/device.h>

/* One compute unit: a CU of AMD's, half of RDNA's work-group processor; NVIDIA's multiprocessor. */
struct target {
    const char *name; /* as compilers call it */
    int nvidia;
    unsigned wave;              /* work-items that go together */
    unsigned simds, most_waves; /* register files, and waves on each */
    unsigned registers;         /* of one file for each lane */
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

/* How many groups are resident, and how many waves that makes on each register file. */
struct occupancy {
    unsigned groups;
    double waves;
};
struct occupancy target_occupancy(const struct target *t, unsigned registers, size_t local_bytes,
                                  size_t items);

#endif
