/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"
#include "cli/standard_streams.h"
#include "os/environment.h"
#include "tuner/commands.h"
#include "tuner/worker/worker_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(int argc, char **argv);

/* `help`, `help COMMAND`: as --help and COMMAND --help. */
static int help(char **argv)
{
    char option[] = "--help";
    char *whole[] = {argv[0], option, NULL}, *of_command[] = {argv[0], argv[2], option, NULL};

    return argv[2] && strcmp(argv[2], "help") != 0 ? run(3, of_command) : run(2, whole);
}

static int run(int argc, char **argv)
{
    int status;

    if (argc < 2 || argv[1][0] == '-')
        return tune_command(argc, argv);
    if (strcmp(argv[1], "help") == 0)
        return help(argv);
    if (strcmp(argv[1], "worker") == 0)
        return worker_command(argc - 1, argv + 1);
    if (store_command(argc - 1, argv + 1, &status))
        return status;
    message_say(stderr, "clattn-tune: there is no command '%s'; --help shows all", argv[1]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    ca_standard_streams_begin();
    if (!ca_environment_value("POCL_AFFINITY"))
        ca_variable_set("POCL_AFFINITY", "1"); /* before the first OpenCL call; see --help */
    return ca_standard_streams_end("clattn-tune", run(argc, ca_arguments(argc, argv)));
}
