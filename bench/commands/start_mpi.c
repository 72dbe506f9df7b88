/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/start_mpi.h"
#include "bench/commands/options.h"
#include "os/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "clattn-bench-mpi";

bool mpi_wanted(int argc, char **argv)
{
    for (int n = 1; n < argc && strcmp(argv[n], "--") != 0; n++)
        if (strcmp(argv[n], "--mpi") == 0)
            return true;
    return false;
}

int mpi_start(int argc, char **argv)
{
    char path[CA_OWN_FOLDER_BYTES + sizeof program];
    const char **const arguments = calloc((size_t)argc + 2, sizeof *arguments);

    if (arguments != NULL) {
        ca_own_folder(path);
        strcat(path, program);
        arguments[0] = path;
        memcpy((void *)(arguments + 1), (const void *)argv, (size_t)argc * sizeof *arguments);
        ca_become(arguments);
        arguments[0] = program;
        ca_become(arguments);
        free((void *)arguments);
    }
    return option_usage(argv[0], "--mpi needs the program clattn-bench-mpi, which is built where "
                                 "CMake finds an MPI, beside this one or on the PATH");
}
