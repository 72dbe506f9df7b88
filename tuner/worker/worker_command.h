/* SPDX-License-Identifier: Apache-2.0 */
/* The process that builds and measures candidates for clattn-tune, and may die of it. */
#ifndef CA_WORKER_COMMAND_H
#define CA_WORKER_COMMAND_H

/* Serves worker_client.c until its requests end; the exit status. Not for people. */
int worker_command(int argc, char **argv);

#endif
