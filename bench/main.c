/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/options.h"
#include "bench/commands/start_mpi.h"
#include "cli/message.h"
#include "cli/standard_streams.h"
#include "os/environment.h"
#include "os/process.h"

#include <clattn/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: clattn-bench COMMAND [OPTION...]\n"
    "Attention, its gradients, projections and layers on an OpenCL device: what there is, whether\n"
    "it is right, how fast it is.\n"
    "\n"
    "  devices                     every OpenCL device and its facts\n"
    "  verify WHAT...              compare with the answers in files, or with double precision\n"
    "  run [WHAT...]               time problems beside other libraries and the device's peaks\n"
    "  duel PROBLEM A B...         time configurations of one problem, interleaved\n"
    "  plan PROBLEM                time a cold start; say what a device would run\n"
    "  compare A.json B.json...    what changed from one run to others, for a person or a CI\n"
    "\n"
    "clattn-bench help COMMAND (or COMMAND --help) says more; --version prints the library's "
    "version.\n"
    "Without --device the environment variable CLATTN_DEVICE chooses, else the first GPU, else\n"
    "the first CPU. POCL_AFFINITY=1 is put into the program's environment where it is not set:\n"
    "without it PoCL may run both of its threads on one core, at half the speed.\n"
    "Exit status: 0 all is well, 1 something is wrong with a device, a file or a result, 2 "
    "usage.\n";

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"devices", devices_command}, {"verify", verify_command},
                {"run", run_command},         {"duel", duel_command},
                {"plan", plan_command},       {"compare", compare_command}};

static int refuse(const char *name)
{
    message_say(stderr, "clattn-bench: there is no command '%s'", name);
    fputs(help, stderr);
    return EXIT_USAGE;
}

static const struct command *find(const char *name)
{
    for (size_t n = 0; n < sizeof commands / sizeof *commands; n++)
        if (strcmp(name, commands[n].name) == 0)
            return &commands[n];
    return NULL;
}

/* The program's help, or that of the command `name`, which may be null. */
static int print_help(const char *name)
{
    static char option[] = "--help";
    const struct command *command = name != NULL ? find(name) : NULL;

    if (name != NULL)
        return command != NULL ? command->run(2, (char *[]){(char *)name, option, NULL})
                               : refuse(name);
    fputs(help, stdout);
    return EXIT_SUCCESS;
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct command *command = find(name);

    if (command != NULL)
        return command->run(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help(NULL);
    if (strcmp(name, "help") == 0)
        return print_help(argv[2]); /* null behind the last */
    if (strcmp(name, "--version") == 0) {
        printf("clattn-bench %s\n", clattn_version_string());
        return EXIT_SUCCESS;
    }
    if (argc > 1)
        return refuse(name);
    fputs(help, stderr);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    ca_standard_streams_begin();
    if (!mpi_wanted(argc, argv)) /* ranks of a machine would share a core */
        if (ca_environment_value("POCL_AFFINITY") == NULL)
            ca_variable_set("POCL_AFFINITY", "1"); /* before the first OpenCL call */
    return ca_standard_streams_end("clattn-bench", run(argc, ca_arguments(argc, argv)));
}
