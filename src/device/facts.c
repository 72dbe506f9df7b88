/* SPDX-License-Identifier: Apache-2.0 */
#include "device/facts.h"
#include "base/log.h"

#include <string.h>

int ca_facts_have(const clattn_device_info *dev, const char *extension)
{
    const size_t length = strlen(extension);

    for (const char *at = dev->extensions; (at = strstr(at, extension)) != NULL; at += length)
        if ((at == dev->extensions || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

int ca_facts_of_pocl(const clattn_device_info *dev)
{
    return strstr(dev->platform_name, "Portable Computing Language") != NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

#define MEMBER(name)                                                                               \
#name, offsetof(clattn_device_info, name), sizeof((clattn_device_info *)0)->name

/* The upper limits are beyond any device, and keep sums and products of a few of them in range. */
static const struct ca_fact facts[] = {
    {MEMBER(opencl_version), 10, 99, 1},
    {MEMBER(opencl_c_version), 10, 99, 1},
    {MEMBER(compute_units), 1, 1 << 20, 0},
    {MEMBER(address_bits), 32, 64, 1},
    {MEMBER(vector_width_float), 0, 64, 0},
    {MEMBER(sub_group_size), 0, 1024, 0},
    {MEMBER(max_work_group_size), 1, 1 << 20, 1},
    {MEMBER(max_parameter_bytes), 1, 1 << 20, 1},
    {MEMBER(local_memory_bytes), 1, 1 << 30, 1},
    {MEMBER(global_memory_bytes), 1, (cl_ulong)1 << 50, 1},
    {MEMBER(max_allocation_bytes), 1, (cl_ulong)1 << 50, 1},
};

const struct ca_fact *ca_fact_at(size_t index)
{
    return index < sizeof facts / sizeof *facts ? &facts[index] : NULL;
}

cl_ulong ca_fact_get(const struct ca_fact *fact, const clattn_device_info *dev)
{
    const unsigned char *member = (const unsigned char *)dev + fact->offset;
    cl_uint narrow;
    cl_ulong wide;

    if (fact->bytes == sizeof wide) {
        memcpy(&wide, member, sizeof wide);
        return wide;
    }
    memcpy(&narrow, member, sizeof narrow);
    return narrow;
}

void ca_fact_set(const struct ca_fact *fact, clattn_device_info *dev, cl_ulong value)
{
    unsigned char *member = (unsigned char *)dev + fact->offset;
    const cl_uint narrow = (cl_uint)value;

    if (fact->bytes == sizeof value)
        memcpy(member, &value, sizeof value);
    else
        memcpy(member, &narrow, sizeof narrow);
}

static int ends(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

int ca_facts_check(const clattn_device_info *dev, char *reason, size_t reason_bytes)
{
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++) {
        const cl_ulong value = ca_fact_get(fact, dev);
        if (value < fact->least || value > fact->most) {
            ca_reason(reason, reason_bytes, "%s is %llu but must be from %llu to %llu", fact->name,
                      (unsigned long long)value, (unsigned long long)fact->least,
                      (unsigned long long)fact->most);
            return 0;
        }
    }
    const struct {
        const char *sentence;
        int broken;
    } rules[] = {
        {"address_bits must be 32 or 64", dev->address_bits != 32 && dev->address_bits != 64},
        {"max_work_item_sizes must be three numbers from 1 on", !dev->max_work_item_sizes[0] ||
                                                                    !dev->max_work_item_sizes[1] ||
                                                                    !dev->max_work_item_sizes[2]},
        {"type must be a CPU, a GPU or an accelerator",
         !(dev->type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR))},
        {"name, vendor, architecture and extensions must be texts that end",
         !ends(dev->name, sizeof dev->name) || !ends(dev->vendor, sizeof dev->vendor) ||
             !ends(dev->architecture, sizeof dev->architecture) ||
             !ends(dev->extensions, sizeof dev->extensions)},
        {"max_allocation_bytes exceeds global_memory_bytes",
         dev->max_allocation_bytes > dev->global_memory_bytes},
    };
    for (size_t n = 0; n < sizeof rules / sizeof *rules; n++) {
        if (rules[n].broken) {
            ca_reason(reason, reason_bytes, "%s", rules[n].sentence);
            return 0;
        }
    }
    ca_reason(reason, reason_bytes, "%s", "");
    return 1;
}

/* ---- narrowing ------------------------------------------------------------------------------- */

/* Keeps the extensions that both have. */
static void narrow_extensions(clattn_device_info *dev, const clattn_device_info *profile)
{
    char kept[sizeof dev->extensions] = "";
    char word[256];

    for (const char *at = dev->extensions; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (length < sizeof word) {
            memcpy(word, at, length);
            word[length] = '\0';
            if (length > 0 && ca_facts_have(profile, word)) {
                if (kept[0])
                    strcat(kept, " ");
                /* fits: the result is not longer than the source */
                strcat(kept, word);
            }
        }
        at += length;
    }
    memcpy(dev->extensions, kept, sizeof kept);
}

void ca_facts_narrow(clattn_device_info *dev, const clattn_device_info *profile)
{
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++) {
        const cl_ulong claimed = ca_fact_get(fact, profile);
        if (!fact->narrows || claimed < ca_fact_get(fact, dev))
            ca_fact_set(fact, dev, claimed);
    }
    for (size_t n = 0; n < 3; n++)
        if (profile->max_work_item_sizes[n] < dev->max_work_item_sizes[n])
            dev->max_work_item_sizes[n] = profile->max_work_item_sizes[n];
    narrow_extensions(dev, profile);
    if (strcmp(dev->architecture, profile->architecture) != 0)
        /* the architecture names instructions that the profile's device lacks */
        dev->architecture[0] = '\0';
    memcpy(dev->name, profile->name, sizeof dev->name);
    memcpy(dev->vendor, profile->vendor, sizeof dev->vendor);
    dev->type = profile->type;
    dev->local_memory_dedicated = profile->local_memory_dedicated;
    dev->compiler_available = dev->compiler_available && profile->compiler_available;
    dev->fp16 = dev->fp16 && profile->fp16;
    dev->fp64 = dev->fp64 && profile->fp64;
    dev->little_endian = dev->little_endian && profile->little_endian;
}
