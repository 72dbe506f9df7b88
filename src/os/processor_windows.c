/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/processor.h"

unsigned ca_processors(void)
{
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);

    return count > 0 ? (unsigned)count : 1;
}

/* Windows grants tiles to threads one by one (EnableProcessOptionalXStateFeatures), which the threads of an OpenCL driver
 * would have to ask for. */
bool ca_processor_keeps_tiles(void)
{
    return false;
}

bool ca_processor_grants_tiles(void)
{
    return false;
}
