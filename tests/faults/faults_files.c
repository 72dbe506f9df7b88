/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* flock */
#include "tests/faults/faults.h"

#include <errno.h>
#include <stdatomic.h>
#if defined(_WIN32)
#include "os/lock.h"
#else
#include <dirent.h>
#include <sys/file.h>
#include <unistd.h>
#endif

static atomic_int lock_error;
static atomic_long syncs;

void faults_no_locks(int error)
{
    atomic_store(&lock_error, error);
}

long faults_syncs(void)
{
    return atomic_load(&syncs);
}

#if defined(_WIN32) /* whose own calls the linker does not let be wrapped: clattn's are */

enum ca_lock __real_ca_lock_try(ca_file file);
enum ca_lock __wrap_ca_lock_try(ca_file file);
bool __wrap_ca_file_make_durable(ca_file file);

enum ca_lock __wrap_ca_lock_try(ca_file file)
{
    const int error = atomic_load(&lock_error);

    if (error == 0)
        return __real_ca_lock_try(file);
    errno = error;
    return CA_LOCK_MISSING;
}

bool __wrap_ca_file_make_durable(ca_file file)
{
    (void)file;
    atomic_fetch_add(&syncs, 1);
    return true;
}

#else

int __real_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation);
int __wrap_fsync(int descriptor);
DIR *__real_fdopendir(int descriptor);
DIR *__wrap_fdopendir(int descriptor);

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

/* The C library's own allocations are wrapped where it is linked statically alone. */
DIR *__wrap_fdopendir(int descriptor)
{
    if (!faults_memory("fdopendir"))
        return __real_fdopendir(descriptor);
    errno = ENOMEM;
    return NULL;
}

#endif
