/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of clattn-tune; they return the exit status. */
#ifndef CA_COMMANDS_H
#define CA_COMMANDS_H

#include "cli/exit_status.h"

#include <stdbool.h>

/* Without a command: argv[0] is the program's name. */
int tune_command(int argc, char **argv);

/* A command around the store, by its name in argv[0]: list, show, export, import, merge or forget. False if it
 * is none of these. */
bool store_command(int argc, char **argv, int *status);

#endif
