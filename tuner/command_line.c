/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/command_line.h"
#include "cli/terminal/table.h"
#include "os/options.h"
#include "tuner/commands.h"
#include "tuner/tune_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int command_usage(const char *command, const char *what)
{
    fprintf(stderr, "clattn-tune %s: %s; --help shows how it is used\n", command, what);
    return EXIT_USAGE;
}

static const struct option words[] = {
    {"device", required_argument, NULL, 'd'},
    {"output", required_argument, NULL, 'o'},
    {"all", no_argument, NULL, 'a'},
    {"known-only", no_argument, NULL, 'k'},
    {"programs", no_argument, NULL, 'p'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

bool command_line_parse(int argc, char **argv, const char *help, const char *taken, int least,
                        int most, struct command_line *line, int *status)
{
    char program[40];
    int word;

    *line = (struct command_line){.device = ""};
    *status = EXIT_USAGE;
    snprintf(program, sizeof program, "clattn-tune %s", argv[0]);
    opterr = 0;
    while ((word = getopt_long(argc, argv, ":ho:", words, NULL)) != -1) {
        if (word == 'h') {
            fputs(help, stdout);
            *status = EXIT_SUCCESS;
            return false;
        }
        if (word == ':' || !strchr(taken, word)) {
            tune_option_usage(program, word, argv);
            return false;
        }
        line->all |= word == 'a';
        line->known_only |= word == 'k';
        line->programs |= word == 'p';
        if (word == 'd')
            line->device = optarg;
        if (word == 'o')
            line->output = optarg;
    }
    line->words = argv + optind;
    line->num_words = argc - optind;
    if (line->num_words >= least && line->num_words <= most)
        return true;
    command_usage(argv[0], line->num_words < least ? "an argument is missing"
                                                   : "there are too many arguments");
    return false;
}

static void print_line(clattn_log_level level, const char *message, void *user)
{
    (void)user;
    ca_print_log("clattn-tune", level, message);
}

clattn_context *command_context(const struct command_line *line)
{
    const clattn_context_options options = {.struct_size = sizeof options, .log = print_line};
    clattn_context *context;

    clattn_context_create_default(line->device, &options, &context);
    return context;
}
