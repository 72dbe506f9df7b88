/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/circumstances.h"

#include <limits.h>
#include <stdio.h>

unsigned long long ca_group_limit(const char *file, const char *root)
{
    (void)file;
    (void)root;
    return ULLONG_MAX;
}

/* The time of the boot in steps of a minute, since two clocks tell it, and the limit of memory of this process's job. */
void ca_circumstances(char text[CA_CIRCUMSTANCES_TEXT])
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits;
    unsigned long long memory = ULLONG_MAX;
    FILETIME now;

    GetSystemTimeAsFileTime(&now);
    const unsigned long long ticks =
        (unsigned long long)now.dwHighDateTime << 32 | now.dwLowDateTime;
    const unsigned long long boot = ticks / 10000 - GetTickCount64();
    if (QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &limits, sizeof limits,
                                  NULL)) {
        if (limits.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_PROCESS_MEMORY)
            memory = limits.ProcessMemoryLimit;
        if (limits.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_JOB_MEMORY &&
            limits.JobMemoryLimit < memory)
            memory = limits.JobMemoryLimit;
    }
    snprintf(text, CA_CIRCUMSTANCES_TEXT, "boot %llu, memory of the job %llu",
             (boot + 30000) / 60000, memory);
}
