/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of enum common_option's bits. Their values are out of the way of letters. */
static const struct option common_options[] = {
    {"device", required_argument, NULL, 256},   {"family", required_argument, NULL, 257},
    {"tunables", required_argument, NULL, 258}, {"untuned", no_argument, NULL, 259},
    {"known-only", no_argument, NULL, 260},     {"json", required_argument, NULL, 261},
};

#define COMMON (sizeof common_options / sizeof *common_options)

static bool take_common(int value, struct common_options *common)
{
    switch (value) {
    case 256:
        common->device = optarg;
        return true;
    case 257:
        common->plan.family = optarg;
        return true;
    case 258:
        common->plan.tunables = optarg;
        return true;
    case 259:
        common->plan.flags |= CLATTN_PLAN_UNTUNED;
        return true;
    case 260:
        common->plan.flags |= CLATTN_PLAN_KNOWN_ONLY;
        return true;
    case 261:
        common->json = optarg;
        return true;
    default:
        return false;
    }
}

int option_letter(int argc, char **argv, const char *letters, const struct option *own)
{
    char silent[64];

    snprintf(silent, sizeof silent, ":%s", letters); /* getopt would print words as they are */
    opterr = 0;
    const int value = getopt_long(argc, argv, silent, own, NULL);
    if (value != '?' && value != ':')
        return value;
    message_say(stderr, "clattn-bench %s: %s'%s'%s", argv[0],
                value == ':' ? "" : "there is no option ", argv[optind - 1],
                value == ':' ? " needs a value" : "");
    return '?';
}

int option_next(int argc, char **argv, const struct option *own, unsigned which,
                struct common_options *common)
{
    struct option all[OPTIONS_MOST + COMMON + 1] = {{NULL, 0, NULL, 0}};
    size_t count = 0;
    int value;

    for (; own[count].name != NULL; count++)
        all[count] = own[count];
    for (size_t n = 0; n < COMMON; n++)
        if (which & 1u << n)
            all[count++] = common_options[n];
    do
        value = option_letter(argc, argv, "h", all);
    while (take_common(value, common));
    return value;
}

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

bool option_whole(const char *option, const char *text, double low, double high, double *value,
                  struct message *why)
{
    char *end;

    *value = strtod(text, &end);
    if (end == text || *end != '\0' || !(*value >= low && *value <= high) ||
        *value != floor(*value))
        return message_set(why, "%s takes a whole number from %.0f to %.0f, not '%s'", option, low,
                           high, text);
    return true;
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
    if (reason[0] != '\0') /* option_letter() has spoken otherwise */
        message_say(stderr, "clattn-bench %s: %s", command, reason);
    fprintf(stderr, "Try 'clattn-bench %s --help'.\n", command);
    return EXIT_USAGE;
}
