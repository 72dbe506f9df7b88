#include "options.h"

#include <stdio.h>
#include <stdlib.h>

bool option_number(const char *option, const char *text, double low, double high, double *value,
                   struct message *why)
{
    char *end;

    *value = strtod(text, &end);
    if (end == text || *end != '\0' || !(*value >= low && *value <= high))
        return message_set(why, "%s takes a number from %g to %g, not '%s'", option, low, high,
                           text);
    return true;
}

bool option_choice(const clattn_plan_options *options, struct message *why)
{
    const int choices = (options->family != NULL) + (options->flags & CLATTN_PLAN_UNTUNED ? 1 : 0) +
                        (options->flags & CLATTN_PLAN_KNOWN_ONLY ? 1 : 0);

    return choices <= 1 ||
           message_set(why, "--family, --untuned and --known-only exclude each other");
}

int option_usage(const char *command, const char *reason)
{
    if (reason[0] != '\0') /* getopt has spoken otherwise */
        fprintf(stderr, "clattn-bench %s: %s\n", command, reason);
    fprintf(stderr, "Try 'clattn-bench %s --help'.\n", command);
    return EXIT_USAGE;
}
