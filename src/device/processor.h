/* SPDX-License-Identifier: Apache-2.0 */
/* The processor that the library itself runs on. */
#ifndef CA_PROCESSOR_H
#define CA_PROCESSOR_H

#include <stddef.h>

/* What clattn_device_info.architecture says of a CPU device of this name: "" unless the name holds this
 * processor's own, as those of PoCL and of Intel's runtime do, so that what is known of this processor
 * holds for it. */
void ca_processor_architecture(const char *device_name, char *architecture, size_t bytes);

#endif
