/* SPDX-License-Identifier: Apache-2.0 */
/* The machine, as people and results of measurements call it. */
#ifndef CA_HOST_H
#define CA_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* The system and its version. */
void ca_host_system(char *text, size_t bytes);

/* The processor's name, else the instruction set's. */
void ca_host_processor(char *text, size_t bytes);

/* Gives the mean number of ready processes in the last 1, 5 and 15 minutes. They are NAN where
 * the system does not say. */
void ca_host_load(double load[3]);

/* Restricts this process to so many of the processors that it may run on. False if there are fewer,
 * or the system has no such call. */
bool ca_host_keep_processors(unsigned count);

#endif
