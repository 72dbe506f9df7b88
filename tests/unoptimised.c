#define _POSIX_C_SOURCE 200809L /* setenv */
#include "unoptimised.h"

#include <stdlib.h>

void unoptimised(void)
{
    setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 0); /* "" optimises all */
}
