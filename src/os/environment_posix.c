/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/environment.h"

#include <unistd.h>

long ca_process_number(void)
{
    return (long)getpid();
}

bool ca_environment_is_borrowed(void)
{
    return geteuid() != getuid() || getegid() != getgid();
}
