/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/host.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* GetVersionEx() says what the program's manifest says; this call says the truth. */
void ca_host_system(char *text, size_t bytes)
{
    typedef LONG(WINAPI * get_version)(OSVERSIONINFOW *);
    const FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");
    const get_version ask = (get_version)(void (*)(void))found;
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};

    if (ask && ask(&version) == 0)
        snprintf(text, bytes, "Windows %lu.%lu.%lu", version.dwMajorVersion, version.dwMinorVersion,
                 version.dwBuildNumber);
    else
        snprintf(text, bytes, "Windows");
}

void ca_host_processor(char *text, size_t bytes)
{
    char name[128] = "";
    DWORD room = sizeof name;

    if (RegGetValueA(HKEY_LOCAL_MACHINE, "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                     "ProcessorNameString", RRF_RT_REG_SZ, NULL, name, &room) == ERROR_SUCCESS &&
        name[0] != '\0')
        snprintf(text, bytes, "%s", name + strspn(name, " "));
    else
        snprintf(text, bytes, "unknown");
}

void ca_host_load(double load[3])
{
    load[0] = load[1] = load[2] = NAN;
}

bool ca_host_keep_processors(unsigned count)
{
    DWORD_PTR own, all, kept = 0;

    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all))
        return false;
    for (DWORD_PTR bit = 1; bit != 0 && count > 0; bit <<= 1)
        if (own & bit) {
            kept |= bit;
            count--;
        }
    return count == 0 && SetProcessAffinityMask(GetCurrentProcess(), kept);
}
