/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/forks.h"

/* A process of Windows has no fork(). */
void ca_forks_watch(void)
{
}

unsigned ca_forks(void)
{
    return 0;
}
