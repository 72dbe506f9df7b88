/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of clattn-tune: each gets its own name as argv[0] and returns the exit status. */
#ifndef CA_COMMANDS_H
#define CA_COMMANDS_H

#include "cli/exit_status.h"

/* Without a command: argv[0] is the program's name. */
int tune_command(int argc, char **argv);

int list_command(int argc, char **argv);
int show_command(int argc, char **argv);
int export_command(int argc, char **argv);
int import_command(int argc, char **argv);
int merge_command(int argc, char **argv);
int forget_command(int argc, char **argv);

#endif
