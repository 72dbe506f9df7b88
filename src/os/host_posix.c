/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/host.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* Finds the text that follows `key` and a colon in /proc/cpuinfo; false if it is not there. */
static bool find_fact(const char *key, char *value, size_t bytes)
{
    FILE *stream = fopen("/proc/cpuinfo", "re");
    char line[512];
    bool found = false;

    while (stream && !found && fgets(line, sizeof line, stream)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = value[0] != '\0';
    }
    if (stream)
        fclose(stream);
    return found;
}

void ca_host_system(char *text, size_t bytes)
{
    struct utsname system;

    if (uname(&system) >= 0)
        snprintf(text, bytes, "%.40s %.60s", system.sysname, system.release);
    else
        snprintf(text, bytes, "unknown");
}

/* x86 names its model, some other architectures the hardware; elsewhere only the instruction set is
 * known. */
void ca_host_processor(char *text, size_t bytes)
{
    struct utsname system;

    if (!find_fact("model name", text, bytes) && !find_fact("Hardware", text, bytes))
        snprintf(text, bytes, "%.60s", uname(&system) >= 0 ? system.machine : "unknown");
}

void ca_host_load(double load[3])
{
    FILE *stream = fopen("/proc/loadavg", "re");

    if (!stream || fscanf(stream, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
        load[0] = load[1] = load[2] = NAN;
    if (stream)
        fclose(stream);
}

bool ca_host_keep_processors(unsigned count)
{
#if defined(__linux__)
    cpu_set_t set;
    unsigned kept = 0;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return false;
    for (int n = 0; n < CPU_SETSIZE; n++)
        if (CPU_ISSET(n, &set) && kept++ >= count)
            CPU_CLR(n, &set);
    return kept >= count && sched_setaffinity(0, sizeof set, &set) == 0;
#else
    (void)count;
    return false;
#endif
}
