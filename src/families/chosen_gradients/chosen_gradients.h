/* SPDX-License-Identifier: Apache-2.0 */
/* The program around each execution of gradients by copies of listed keys. It is no choice of a plan, and so not among the
 * families of registry.h. */
#ifndef CA_FAMILY_CHOSEN_GRADIENTS_H
#define CA_FAMILY_CHOSEN_GRADIENTS_H

#include "families/family.h"

extern const struct ca_family ca_family_chosen_gradients;

/* Its first stages run before an execution, others after it, and those from CA_CHOSEN_SINKS on after the last one. */
enum { CA_CHOSEN_COPIES = 1, CA_CHOSEN_SINKS = 3 };

/* Its values for a device. */
void ca_chosen_gradients_suggest(const clattn_device_info *dev, size_t *values);

#endif
