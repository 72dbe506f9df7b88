/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that run before and after each execution of gradients by copies of listed keys. Plans do not choose them, so
 * they are not among the families of registry.h. */
#ifndef CA_FAMILY_CHOSEN_GRADIENTS_H
#define CA_FAMILY_CHOSEN_GRADIENTS_H

#include "families/family.h"

extern const struct ca_family ca_family_chosen_gradients;

/* The first CA_CHOSEN_COPIES stages run before an execution, the next ones after it. Those from CA_CHOSEN_SINKS on run after
 * the last execution. */
enum { CA_CHOSEN_COPIES = 1, CA_CHOSEN_SINKS = 3 };

/* Its values for a device. */
void ca_chosen_gradients_suggest(const clattn_device_info *dev, size_t *values);

#endif
