/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands around the store have in common: options, and a context that says why. */
#ifndef CA_COMMAND_LINE_H
#define CA_COMMAND_LINE_H

#include <clattn/clattn.h>
#include <stdbool.h>

struct command_line {
    const char *device; /* "": the default */
    const char *output; /* -o; NULL if it was not given */
    bool all, known_only, programs;
    char **words; /* the arguments that are no options, of argv */
    int num_words;
};

/* True to go on; else help or what is wrong was printed, and *status is for the exit. argv[0] is
 * the command's name. `taken` names the options that it takes: d(evice), o(utput), a(ll),
 * k(nown-only), p(rograms). It takes least to most words. */
bool command_line_parse(int argc, char **argv, const char *help, const char *taken, int least,
                        int most, struct command_line *line, int *status);

/* A context that prints warnings and errors on stderr; NULL after a sentence. */
clattn_context *command_context(const struct command_line *line);

/* Prints "clattn-tune COMMAND: ..."; returns EXIT_USAGE. */
int command_usage(const char *command, const char *what);

#endif
