/* SPDX-License-Identifier: Apache-2.0 */
/* The processors that the operating system offers. */
#ifndef CA_OS_PROCESSOR_H
#define CA_OS_PROCESSOR_H

#include <stdbool.h>

/* Returns their number; at least 1. */
unsigned ca_processors(void);

/* Returns whether the system saves AMX's tile registers for processes that ask for them. */
bool ca_processor_keeps_tiles(void);

/* Requests tile registers, which Linux grants a process with all of its threads (arch_prctl,
 * ARCH_REQ_XCOMP_PERM). Returns whether the process has them now; asking again does no harm.
 * Without them an instruction that uses tiles ends the process. */
bool ca_processor_grants_tiles(void);

#endif
