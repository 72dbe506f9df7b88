/* The commands of clattn-tune: each gets its own name as argv[0] and returns the exit status. */
#ifndef CA_COMMANDS_H
#define CA_COMMANDS_H

enum { EXIT_USAGE = 2 };

int replay_command(int argc, char **argv);

#endif
