/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes in the representatives of classes. */
#ifndef CA_CLASS_SIZE_H
#define CA_CLASS_SIZE_H

#include <stddef.h>

/* The nearest power of two by ratio, from 1 to most, which is one. A size of 0 counts as 1, so that
 * the representative has something to measure; nothing is computed for it anyway. */
size_t ca_size_rounded(size_t size, size_t most);

#endif
