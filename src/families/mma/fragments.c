#include "families/mma/fragments.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct ca_fragment fragments[] = {
    [CA_MMA_SYNC] = {32, 16, 8, 16, 2, 0, 192, 1, {660, 400}},
    [CA_WMMA] = {32, 16, 16, 16, 1, 1, 192, 2, {480, 300}},
    [CA_MFMA_32] = {64, 32, 32, 8, 1, 1, 384, 1, {SIZE_MAX, SIZE_MAX}},
    [CA_MFMA_16] = {64, 16, 16, 16, 1, 1, 384, 1, {SIZE_MAX, SIZE_MAX}},
    [CA_DPAS_8] = {8, 8, 8, 16, 1, 1, 192, 1, {SIZE_MAX, SIZE_MAX}},
    [CA_DPAS_16] = {16, 8, 16, 16, 1, 1, 192, 1, {SIZE_MAX, SIZE_MAX}},
};

const struct ca_fragment *ca_fragment_of(size_t instruction)
{
    return &fragments[instruction];
}

size_t ca_instruction_of(const clattn_device_info *dev)
{
    static const struct {
        const char *architecture; /* what it begins with */
        size_t sub_group_size, instruction;
    } known[] = {
        {"gfx11", 32, CA_WMMA},
        {"gfx90a", 64, CA_MFMA_32},
        {"gfx94", 64, CA_MFMA_32},
        {"gfx950", 64, CA_MFMA_32},
    };

    if (strncmp(dev->architecture, "sm_", 3) == 0)
        return strtoul(dev->architecture + 3, NULL, 10) >= 80 ? CA_MMA_SYNC : 0;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strncmp(dev->architecture, known[n].architecture, strlen(known[n].architecture)) == 0)
            return dev->sub_group_size == known[n].sub_group_size ? known[n].instruction : 0;
    if (!strstr(dev->extensions, "cl_intel_subgroup_matrix_multiply_accumulate"))
        return 0;
    return dev->sub_group_size == 8 ? CA_DPAS_8 : CA_DPAS_16;
}

int ca_has_instruction(const clattn_device_info *dev, size_t instruction)
{
    const size_t own = ca_instruction_of(dev);

    return own == instruction || (own == CA_MFMA_32 && instruction == CA_MFMA_16);
}

const char *ca_fragment_options(size_t instruction, int emulate)
{
    const int dpas = instruction == CA_DPAS_8 || instruction == CA_DPAS_16;

    return dpas && !emulate ? " -cl-intel-256-GRF-per-thread" : "";
}
