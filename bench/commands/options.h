/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines. Each command has a table of its own options; exit codes are the same for all. */
#ifndef CLATTN_BENCH_OPTIONS_H
#define CLATTN_BENCH_OPTIONS_H

#include "cli/exit_status.h"
#include "cli/message.h"
#include "os/options.h"

#include <clattn/plan.h>

#define EXIT_FAILED 1 /* Something was wrong with a device, a file or a result. */

/* argv[0] is the command's name. */
int devices_command(int argc, char **argv);
int verify_command(int argc, char **argv);
int run_command(int argc, char **argv);
int duel_command(int argc, char **argv);
int plan_command(int argc, char **argv);
int compare_command(int argc, char **argv);

/* An option and the place for its value: one of flag, bits, text, number and read. */
struct command_option {
    const char *name;  /* The option without its dashes; NULL ends a table. */
    bool *flag;        /* Set to true if the option is given; it takes no value. */
    unsigned *bits;    /* The option takes no value, but sets */
    unsigned bit;      /* this bit of *bits. */
    const char **text; /* Takes the value as text. */
    double *number;    /* Takes the value as a number from low to high, */
    bool whole;        /* which must be an integer. */
    double low, high;
    /* Reads any other kind of value. */
    bool (*read)(const char *value, void *to, struct message *why);
    void *to;
};

/* A forced family with its tunables; the other choices of a plan. */
#define OPTIONS_FAMILY(plan)                                                                       \
    {.name = "family", .text = &(plan).family},                                                    \
    {                                                                                              \
        .name = "tunables", .text = &(plan).tunables                                               \
    }
#define OPTIONS_CHOICE(plan)                                                                       \
    {.name = "untuned", .bits = &(plan).flags, .bit = CLATTN_PLAN_UNTUNED},                        \
    {                                                                                              \
        .name = "known-only", .bits = &(plan).flags, .bit = CLATTN_PLAN_KNOWN_ONLY                 \
    }

/* Reads a command's options and --help, which prints the text; the first argument is argv[optind].
 * 0 to go on, 1 if help was printed, else EXIT_USAGE. */
int command_line_read(int argc, char **argv, const char *help,
                      const struct command_option *options);

/* A number from `low` to `high`, and nothing else, in `text`. */
bool option_number(const char *option, const char *text, double low, double high, double *value,
                   struct message *why);

/* Reads a whole number in the same way. */
bool option_whole(const char *option, const char *text, double low, double high, double *value,
                  struct message *why);

/* Checks that at most one of a forced family, --untuned and --known-only is given, and tunables
 * only with a family. */
bool option_choice(const clattn_plan_options *options, struct message *why);

/* Returns whether a path is "-", for standard output; NULL is none. */
bool option_to_stdout(const char *path);

/* Prints "clattn-bench COMMAND: REASON" and how to get help; returns EXIT_USAGE. */
int option_usage(const char *command, const char *reason);

#endif
