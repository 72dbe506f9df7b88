/* SPDX-License-Identifier: Apache-2.0 */
#include "device/capacity.h"
#include "device/facts.h"

#include <stdlib.h>
#include <string.h>

size_t ca_private_limit(const clattn_device_info *dev)
{
    return dev->type & CL_DEVICE_TYPE_CPU ? (size_t)4 << 20 : 131056;
}

static int starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

int ca_has_many_registers(const clattn_device_info *dev)
{
    if (!(dev->type & CL_DEVICE_TYPE_GPU))
        return 0;
    if (dev->architecture[0])
        return starts(dev->architecture, "sm_") || starts(dev->architecture, "gfx");
    return starts(dev->vendor, "NVIDIA") || starts(dev->vendor, "AMD") ||
           starts(dev->vendor, "Advanced Micro Devices");
}

int ca_copies_in_background(const clattn_device_info *dev)
{
    return starts(dev->architecture, "sm_") && strtoul(dev->architecture + 3, NULL, 10) >= 80;
}

const char *ca_copy_options(const clattn_device_info *dev)
{
    return ca_copies_in_background(dev) ? " -D ASYNC_COPIES=1" : "";
}

size_t ca_resident_local_bytes(const clattn_device_info *dev)
{
    enum { RESIDENT_ITEMS = 256, LEAST = 384 };
    const size_t share = (size_t)dev->local_memory_bytes / RESIDENT_ITEMS;

    return share > LEAST ? share : LEAST;
}

int ca_fills_vectors(const clattn_device_info *dev)
{
    return (dev->type & CL_DEVICE_TYPE_CPU) && dev->vector_width_float != 1;
}

size_t ca_vector_lanes(const clattn_device_info *dev)
{
    return dev->vector_width_float >= 16 ? 16 : dev->vector_width_float >= 8 ? 8 : 4;
}

int ca_native_is_precise(const clattn_device_info *dev)
{
    return !(dev->type & CL_DEVICE_TYPE_CPU) || ca_facts_of_pocl(dev);
}

/* Returns whether a CPU with vectors of `lanes` or more has this among the words of its architecture. */
static int cpu_with(const clattn_device_info *dev, size_t lanes, const char *word)
{
    const char *found = strstr(dev->architecture, word);

    return dev->type & CL_DEVICE_TYPE_CPU && dev->vector_width_float >= lanes && found &&
           (found == dev->architecture || found[-1] == ' ') &&
           (found[strlen(word)] == ' ' || found[strlen(word)] == '\0');
}

static int cpu_has(const clattn_device_info *dev, const char *word)
{
    return cpu_with(dev, 16, word);
}

int ca_multiplies_bf16_pairs(const clattn_device_info *dev)
{
    return cpu_has(dev, "avx512_bf16");
}

int ca_multiplies_bf16_tiles(const clattn_device_info *dev)
{
    return cpu_has(dev, "amx_bf16");
}

int ca_bf16_pairs_are_fast(const clattn_device_info *dev)
{
    return ca_multiplies_bf16_pairs(dev) && !cpu_has(dev, "amx_bf16") &&
           !cpu_has(dev, "amx_bf16_off");
}

int ca_multiplies_bytes(const clattn_device_info *dev)
{
    return ca_vector_lanes(dev) == 16 ? cpu_has(dev, "vnni") : cpu_with(dev, 8, "avx_vnni");
}

/* The first letters of AMD's processors with v_dot4_i32_i8 or v_dot4_i32_iu8 (LLVM, "User Guide for AMDGPU Backend"). */
static const char *const amd_with_dot[] = {"gfx906", "gfx908",  "gfx90a",  "gfx94",
                                           "gfx95",  "gfx1011", "gfx1012", "gfx103",
                                           "gfx11",  "gfx12",   NULL};

int ca_items_multiply_bytes(const clattn_device_info *dev)
{
    if (!(dev->type & CL_DEVICE_TYPE_GPU))
        return 0;
    for (const char *const *amd = amd_with_dot; *amd; amd++)
        if (starts(dev->architecture, *amd))
            return 1;
    if (starts(dev->architecture, "sm_"))
        return strtoul(dev->architecture + 3, NULL, 10) >= 61;
    return ca_facts_have(dev, "cl_khr_integer_dot_product") ||
           ca_facts_have(dev, "cl_arm_integer_dot_product_accumulate_int8");
}

size_t ca_device_cores(const clattn_device_info *dev)
{
    const size_t engines = dev->sub_group_size >= 16 ? 8 : 16, units = dev->compute_units;

    if (!starts(dev->architecture, "intel_") || units < engines)
        return units;
    return units / engines;
}
