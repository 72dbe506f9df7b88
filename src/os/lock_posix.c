/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/sysmacros.h>
#endif

enum ca_lock ca_lock_try(ca_file file)
{
    if (flock((int)file, LOCK_EX | LOCK_NB) == 0)
        return CA_LOCK_TAKEN;
    return errno == EWOULDBLOCK || errno == EINTR ? CA_LOCK_OTHERS : CA_LOCK_MISSING;
}

void ca_lock_release(ca_file file)
{
    flock((int)file, LOCK_UN);
}

long ca_lock_holder(ca_file file)
{
    long holder = 0;
#if defined(__linux__)
    char line[256];
    struct stat status;
    FILE *locks = fstat((int)file, &status) == 0 ? fopen("/proc/locks", "re") : NULL;

    /* "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF" */
    while (locks && holder == 0 && fgets(line, sizeof line, locks)) {
        unsigned first, second;
        unsigned long long number;
        long process;
        if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%llu", &process, &first, &second, &number) ==
                4 &&
            number == status.st_ino && makedev(first, second) == status.st_dev)
            holder = process;
    }
    if (locks)
        fclose(locks);
#else
    (void)file;
#endif
    return holder;
}
