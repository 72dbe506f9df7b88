#include "targets.h"

#include <stdio.h>
#include <string.h>

/* NVIDIA: CUDA's programming guide, table of technical specifications per compute capability; a
 * multiprocessor has four register files, and from 8.0 on a group takes 1 KB of the system's.
 * AMD: LLVM's AMDGPUUsage and instruction set manuals of CDNA2, RDNA2 and RDNA3. */
static const struct target targets[] = {
    {"sm_75", 1, 32, 4, 8, 512, 8, 255, 16, 65536, 0},
    {"sm_86", 1, 32, 4, 12, 512, 8, 255, 16, 102400, 1024},
    {"sm_90", 1, 32, 4, 16, 512, 8, 255, 32, 233472, 1024},
    {"gfx90a", 0, 64, 4, 8, 512, 8, 512, 32, 65536, 0},
    {"gfx1030", 0, 32, 2, 16, 1024, 16, 256, 32, 65536, 0},
    {"gfx1100", 0, 32, 2, 16, 1536, 24, 256, 32, 65536, 0},
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

    snprintf(path, sizeof path, "%s/%s.json", folder, t->name);
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
                                  size_t items)
{
    const unsigned given = (registers + t->granule - 1) / t->granule * t->granule;
    const unsigned by_registers = given ? t->registers / given : t->most_waves;
    const unsigned file_waves = smaller(by_registers, t->most_waves);
    const unsigned group_waves = (unsigned)((items + t->wave - 1) / t->wave);
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
