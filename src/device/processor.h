/* SPDX-License-Identifier: Apache-2.0 */
/* The processor that the library itself runs on. */
#ifndef CA_PROCESSOR_H
#define CA_PROCESSOR_H

#include <stddef.h>

/* clattn_device_info.architecture of a CPU device of this name. If the name contains that of this processor, as those of PoCL
 * and of Intel's runtime do, the device is this processor, and its instructions are queried. Else
  * "". */
void ca_processor_architecture(const char *device_name, char *architecture, size_t bytes);

#endif
