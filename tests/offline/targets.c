/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include <stdio.h>
#include <string.h>

/* NVIDIA: CUDA's programming guide, table of technical specifications per compute capability; a
 * multiprocessor has four register files, and from 8.0 on a group takes 1 KB of the system's.
 * AMD: LLVM's AMDGPUUsage and instruction set manuals of CDNA2, CDNA3, RDNA2 and RDNA3.
 * Intel: oneAPI GPU optimization guide, Xe architecture: 16 vector engines of 7 threads (Xe-LP) or 8
 * (Xe-HPG) share 128 KB; a thread has 128 registers of 32 bytes, or half as many threads 256. */
static const struct target targets[] = {
    {"sm_75", "sm_75", NVIDIA, 32, 4, 8, 512, 8, 255, 16, 65536, 0},
    {"sm_86", "sm_86", NVIDIA, 32, 4, 12, 512, 8, 255, 16, 102400, 1024},
    {"sm_90", "sm_90", NVIDIA, 32, 4, 16, 512, 8, 255, 32, 233472, 1024},
    {"gfx90a", "gfx90a", AMD, 64, 4, 8, 512, 8, 512, 32, 65536, 0},
    {"gfx942", "gfx942", AMD, 64, 4, 8, 512, 8, 512, 32, 65536, 0},
    {"gfx1030", "gfx1030", AMD, 32, 2, 16, 1024, 16, 256, 32, 65536, 0},
    {"gfx1100", "gfx1100", AMD, 32, 2, 16, 1536, 24, 256, 32, 65536, 0},
    {"tgllp", "intel_iris_xe", INTEL, 32, 16, 7, 7168, 1, 128, 64, 131072, 0},
    {"dg2", "intel_arc_a750", INTEL, 32, 16, 8, 8192, 1, 128, 64, 131072, 0},
};

const struct target *target_at(size_t index)
{
    return index < sizeof targets / sizeof *targets ? &targets[index] : NULL;
}

const struct target *target_find(const char *name)
{
    const struct target *t;

    for (size_t n = 0; (t = target_at(n)) != NULL; n++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

int target_device(const struct target *t, const char *folder, clattn_device_info *dev)
{
    static char text[65536];
    char path[4096], reason[256] = "";

    snprintf(path, sizeof path, "%s/%s.json", folder, t->profile);
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 0;
    }
    const size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    *dev = (clattn_device_info){.struct_size = sizeof *dev};
    if (clattn_device_profile_parse(text, bytes, dev, reason, sizeof reason) == CLATTN_SUCCESS)
        return 1;
    fprintf(stderr, "%s: %s\n", path, reason);
    return 0;
}

static unsigned smaller(unsigned x, unsigned y)
{
    return x < y ? x : y;
}

struct occupancy target_occupancy(const struct target *t, unsigned registers, size_t local_bytes,
                                  size_t items, unsigned lanes)
{
    const unsigned given = (registers + t->granule - 1) / t->granule * t->granule;
    const unsigned wave = lanes ? lanes : t->wave;
    const unsigned taken = t->vendor == INTEL ? given * wave : given;
    const unsigned by_registers = taken ? t->registers / taken : t->most_waves;
    const unsigned file_waves = smaller(by_registers, t->most_waves);
    const unsigned group_waves = (unsigned)((items + wave - 1) / wave);
    const size_t local = local_bytes + t->group_bytes;
    struct occupancy o = {0, 0.0};

    if (group_waves == 0)
        return o;
    o.groups = smaller(file_waves * t->simds / group_waves, t->most_groups);
    if (local)
        o.groups = smaller(o.groups, (unsigned)(t->local_bytes / local));
    o.waves = (double)o.groups * group_waves / t->simds;
    return o;
}
