#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: clattn-tune COMMAND [OPTION...]\n"
    "The search for fast kernel configurations.\n"
    "\n"
    "  replay FILE.json[.gz]...  search recorded spaces instead of a device\n"
    "\n"
    "clattn-tune COMMAND --help says more; --version prints the version.\n"
    "Exit status: 0 all is well, 1 something is wrong with a file or a result, 2 usage.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"replay", replay_command}};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(name, "--version") == 0) {
        printf("clattn-tune %s\n", CA_TUNE_VERSION);
        return EXIT_SUCCESS;
    }
    for (size_t n = 0; n < sizeof commands / sizeof *commands; n++)
        if (strcmp(name, commands[n].name) == 0)
            return commands[n].run(argc - 1, argv + 1);
    if (argc > 1)
        fprintf(stderr, "clattn-tune: there is no command '%s'\n", name);
    fputs(help, stderr);
    return EXIT_USAGE;
}
