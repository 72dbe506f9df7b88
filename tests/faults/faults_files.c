/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* flock */
#include "tests/faults/faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <unistd.h>

static atomic_int lock_error;
static atomic_long syncs;

int __real_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation);
int __wrap_fsync(int descriptor);

void faults_no_locks(int error)
{
    atomic_store(&lock_error, error);
}

long faults_syncs(void)
{
    return atomic_load(&syncs);
}

int __wrap_flock(int descriptor, int operation)
{
    const int error = atomic_load(&lock_error);

    if (error == 0)
        return __real_flock(descriptor, operation);
    errno = error;
    return -1;
}

int __wrap_fsync(int descriptor)
{
    (void)descriptor;
    atomic_fetch_add(&syncs, 1);
    return 0;
}
