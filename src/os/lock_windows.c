/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/lock.h"

/* Locks of Windows keep others from reading the bytes that they cover: this byte lies behind the end of every file. */
static OVERLAPPED far_behind(void)
{
    return (OVERLAPPED){.OffsetHigh = 0x3fffffff};
}

enum ca_lock ca_lock_try(ca_file file)
{
    OVERLAPPED at = far_behind();

    if (LockFileEx((HANDLE)file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at))
        return CA_LOCK_TAKEN;
    if (GetLastError() == ERROR_LOCK_VIOLATION || GetLastError() == ERROR_IO_PENDING)
        return CA_LOCK_OTHERS;
    ca_windows_fail();
    return CA_LOCK_MISSING;
}

void ca_lock_release(ca_file file)
{
    OVERLAPPED at = far_behind();

    UnlockFileEx((HANDLE)file, 0, 1, 0, &at);
}

long ca_lock_holder(ca_file file)
{
    (void)file;
    return 0;
}
