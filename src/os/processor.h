/* SPDX-License-Identifier: Apache-2.0 */
/* The processors, as far as the operating system gives them. */
#ifndef CA_OS_PROCESSOR_H
#define CA_OS_PROCESSOR_H

#include <stdbool.h>

/* How many are there; at least 1. */
unsigned ca_processors(void);

/* Whether the system keeps the tile registers of AMX, of those processes that ask for them. */
bool ca_processor_keeps_tiles(void);

/* Asks for them, which Linux grants a process, with all of its threads, when it asks (arch_prctl,
 * ARCH_REQ_XCOMP_PERM). Whether it has them now; asking again does no harm. Without them an instruction that
 * uses tiles ends the process. */
bool ca_processor_grants_tiles(void);

#endif
