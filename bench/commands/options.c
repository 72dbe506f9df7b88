/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 24, HELP = 'h', FIRST = 256 /* Out of the way of letters. */ };

/* getopt_long(), whose complaints begin with the program's name and the command's. */
static int next_option(int argc, char **argv, const struct option *options)
{
    opterr = 0; /* getopt would print words as they are */
    const int value = getopt_long(argc, argv, ":h", options, NULL);
    if (value != '?' && value != ':')
        return value;
    message_say(stderr, "clattn-bench %s: %s'%s'%s", argv[0],
                value == ':' ? "" : "there is no option ", argv[optind - 1],
                value == ':' ? " needs a value" : "");
    return '?';
}

static bool take(const struct command_option *option, struct message *why)
{
    char name[32];

    if (option->flag != NULL)
        *option->flag = true;
    if (option->bits != NULL)
        *option->bits |= option->bit;
    if (option->text != NULL)
        *option->text = optarg;
    snprintf(name, sizeof name, "--%s", option->name);
    if (option->number != NULL)
        return (option->whole ? option_whole : option_number)(name, optarg, option->low,
                                                              option->high, option->number, why);
    return option->read == NULL || option->read(optarg, option->to, why);
}

int command_line_read(int argc, char **argv, const char *help, const struct command_option *options)
{
    struct option all[MOST_OPTIONS] = {{"help", no_argument, NULL, HELP}};
    struct message why = {""};
    int option;

    for (int n = 0; options[n].name != NULL; n++) {
        const bool alone = options[n].flag != NULL || options[n].bits != NULL;
        all[n + 1] = (struct option){options[n].name, alone ? no_argument : required_argument, NULL,
                                     FIRST + n};
    }
    while ((option = next_option(argc, argv, all)) != -1) {
        if (option == HELP) {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?' || !take(&options[option - FIRST], &why))
            return option_usage(argv[0], why.text);
    }
    return 0;
}

bool option_to_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static bool is_number(const char *text, double low, double high, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= low && *value <= high;
}

bool option_number(const char *option, const char *text, double low, double high, double *value,
                   struct message *why)
{
    return is_number(text, low, high, value) ||
           message_set(why, "%s takes a number from %g to %g, not '%s'", option, low, high, text);
}

bool option_whole(const char *option, const char *text, double low, double high, double *value,
                  struct message *why)
{
    return (is_number(text, low, high, value) && *value == floor(*value)) ||
           message_set(why, "%s takes a whole number from %.0f to %.0f, not '%s'", option, low,
                       high, text);
}

bool option_choice(const clattn_plan_options *options, struct message *why)
{
    const int choices = (options->family != NULL) + (options->flags & CLATTN_PLAN_UNTUNED ? 1 : 0) +
                        (options->flags & CLATTN_PLAN_KNOWN_ONLY ? 1 : 0);

    if (options->tunables != NULL && options->family == NULL)
        return message_set(why, "--tunables needs --family");
    return choices <= 1 ||
           message_set(why, "--family, --untuned and --known-only exclude each other");
}

int option_usage(const char *command, const char *reason)
{
    if (reason[0] != '\0') /* next_option() has spoken otherwise */
        message_say(stderr, "clattn-bench %s: %s", command, reason);
    fprintf(stderr, "Try 'clattn-bench %s --help'.\n", command);
    return EXIT_USAGE;
}
