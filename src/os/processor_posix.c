/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/processor.h"

#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <unistd.h>

unsigned ca_processors(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (unsigned)count : 1;
}

#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
/* arch_prctl()'s codes (Linux, asm/prctl.h, of which older systems' lack these), and which of the registers
 * that XSAVE keeps are tiles. */
enum { GET_SUPPORTED = 0x1021, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

bool ca_processor_keeps_tiles(void)
{
    unsigned long supported = 0;

    return syscall(SYS_arch_prctl, GET_SUPPORTED, &supported) == 0 && (supported >> TILE_DATA & 1);
}

bool ca_processor_grants_tiles(void)
{
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
bool ca_processor_keeps_tiles(void)
{
    return false;
}

bool ca_processor_grants_tiles(void)
{
    return false;
}
#endif
