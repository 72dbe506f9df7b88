/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines. Each command reads its own options; exit codes are the same for all. */
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
int gradcheck_command(int argc, char **argv);
int compare_command(int argc, char **argv);

/* What several commands are told in the same way. */
struct common_options {
    const char *device; /* NULL: the default. */
    const char *json;   /* A file, or "-" for standard output; NULL: none. */
    clattn_plan_options plan;
};

enum common_option {
    OPTION_DEVICE = 1,
    OPTION_FAMILY = 2,
    OPTION_TUNABLES = 4,
    OPTION_UNTUNED = 8,
    OPTION_KNOWN_ONLY = 16,
    OPTION_JSON = 32,
    OPTION_PLAN = OPTION_FAMILY | OPTION_TUNABLES | OPTION_UNTUNED | OPTION_KNOWN_ONLY
};

/* getopt_long(), whose complaints begin with the program's name and the command's. */
int option_letter(int argc, char **argv, const char *letters, const struct option *own);

/* The next of the command's own options (a letter each, OPTIONS_MOST at most, the last without a
 * name) as getopt_long() has it, with -h; takes in the common ones among `which` on the way. */
#define OPTIONS_MOST 16
int option_next(int argc, char **argv, const struct option *own, unsigned which,
                struct common_options *common);

/* A number from `low` to `high`, and nothing else, in `text`. */
bool option_number(const char *option, const char *text, double low, double high, double *value,
                   struct message *why);

/* The same for a number without a fraction. */
bool option_whole(const char *option, const char *text, double low, double high, double *value,
                  struct message *why);

/* Of a forced family, --untuned and --known-only at most one is there; tunables have a family. */
bool option_choice(const clattn_plan_options *options, struct message *why);

/* Prints "clattn-bench COMMAND: REASON" and how to get help; returns EXIT_USAGE. */
int option_usage(const char *command, const char *reason);

#endif
