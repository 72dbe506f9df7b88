/* SPDX-License-Identifier: Apache-2.0 */
#include "families/amx.h"
#include "device/capacity.h"
#include "families/family.h"
#include "os/processor.h"

const char *ca_amx_options(const size_t *values, const clattn_device_info *dev)
{
    (void)values;
    return ca_multiplies_bf16_tiles(dev) ? " -DEMULATE=0" : " -DEMULATE=1";
}

const char *ca_amx_refused_by_system(const clattn_device_info *dev)
{
    return ca_multiplies_bf16_tiles(dev) && !ca_processor_grants_tiles()
               ? "the operating system does not grant the process the tile registers of AMX"
               : NULL;
}

int ca_amx_preference(const clattn_device_info *dev, int with)
{
    return ca_multiplies_bf16_tiles(dev) ? with : CA_ONLY_IF_FORCED;
}
