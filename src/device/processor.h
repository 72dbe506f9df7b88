/* SPDX-License-Identifier: Apache-2.0 */
/* The processor that the library itself runs on. */
#ifndef CA_PROCESSOR_H
#define CA_PROCESSOR_H

#include <stddef.h>

/* Finds the architecture of a CPU device of this name. If the name contains this processor's, as the
 * names of PoCL and Intel's runtime do, the device is this processor, whose instructions are queried. */
void ca_processor_architecture(const char *device_name, char *architecture, size_t bytes);

#endif
