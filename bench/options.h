/* Command lines. Each command reads its own options; exit codes are the same for all. */
#ifndef CLATTN_BENCH_OPTIONS_H
#define CLATTN_BENCH_OPTIONS_H

#include "message.h"
#include <clattn/plan.h>

#define EXIT_FAILED 1 /* Something was wrong with a device, a file or a result. */
#define EXIT_USAGE 2
#define EXIT_INTERRUPTED 130 /* By the user; what was measured is kept. */

/* argv[0] is the command's name. */
int devices_command(int argc, char **argv);
int verify_command(int argc, char **argv);
int run_command(int argc, char **argv);
int duel_command(int argc, char **argv);
int plan_command(int argc, char **argv);

/* A number from `low` to `high`, and nothing else, in `text`. */
bool option_number(const char *option, const char *text, double low, double high, double *value,
                   struct message *why);

/* Of a forced family, --untuned and --known-only at most one is there. */
bool option_choice(const clattn_plan_options *options, struct message *why);

/* Prints "clattn-bench COMMAND: REASON" and how to get help; returns EXIT_USAGE. */
int option_usage(const char *command, const char *reason);

#endif
