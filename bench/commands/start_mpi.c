#define _POSIX_C_SOURCE 200809L /* execv */
#include "bench/commands/start_mpi.h"
#include "bench/commands/options.h"
#include "cli/own_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char **const arguments = calloc((size_t)argc + 2, sizeof *arguments);

    if (arguments != NULL) {
        ca_own_folder(path);
        strcat(path, program);
        arguments[0] = path;
        memcpy(arguments + 1, argv, (size_t)argc * sizeof *arguments);
        execv(path, arguments);
        execvp(program, arguments);
        free(arguments);
    }
    return option_usage(argv[0], "--mpi needs the program clattn-bench-mpi, which is built where "
                                 "CMake finds an MPI, beside this one or on the PATH");
}
