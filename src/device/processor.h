/* The processor that the library itself runs on. */
#ifndef CA_PROCESSOR_H
#define CA_PROCESSOR_H

#include <stddef.h>

/* What clattn_device_info.architecture says of a CPU device of this name: "" unless the name holds this
 * processor's own, as those of PoCL and of Intel's runtime do, so that what is known of this processor
 * holds for it. */
void ca_processor_architecture(const char *device_name, char *architecture, size_t bytes);

/* Asks the operating system for the tile registers of AMX, which Linux grants a process, with all of its
 * threads, when it asks (arch_prctl, ARCH_REQ_XCOMP_PERM). Whether it has them now; asking again does no
 * harm. Without them an instruction that uses tiles ends the process. */
int ca_processor_grants_tiles(void);

#endif
