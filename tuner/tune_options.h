/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of clattn-tune when no command is named. */
#ifndef CA_TUNE_OPTIONS_H
#define CA_TUNE_OPTIONS_H

#include "internal.h"
#include <clattn/problem.h>

struct tune_options {
    const char *device;       /* "": the default */
    clattn_problem *problems; /* freed by the caller */
    size_t num_problems;
    double seconds;     /* 0: no limit */
    size_t evaluations; /* 0: no limit */
    enum ca_strategy strategy;
    uint64_t seed;
    double timeout; /* seconds of one configuration */
    int builders;   /* processes that compile ahead */
    bool again, quiet, json;
    const char *json_file; /* NULL: standard output */
};

enum tune_action { TUNE_RUN, TUNE_DONE, TUNE_USAGE, TUNE_FAILED };

/* Prints help or what is wrong itself. */
enum tune_action tune_options_parse(int argc, char **argv, struct tune_options *options);

/* The help of the program, with its commands. */
extern const char tune_help[];

/* Getopt's complaint in one sentence: what it returned, '?' or ':', about argv[optind - 1].
 * Returns EXIT_USAGE. */
int tune_option_usage(const char *program, int complaint, char *const *argv);

/* Reads a text form of a problem, or says why it is none. */
bool tune_problem_parse(const char *program, const char *line, clattn_problem *problem);

#endif
