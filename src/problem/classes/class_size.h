/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes in the representatives of classes. */
#ifndef CA_CLASS_SIZE_H
#define CA_CLASS_SIZE_H

#include <clattn/problem.h>
#include <stddef.h>

/* The nearest power of two by ratio, from 1 to most, which is one. A size of 0 counts as 1, so that
 * the representative has something to measure; nothing is computed for it anyway. */
size_t ca_size_rounded(size_t size, size_t most);

/* The layout of a representative's tensor (1, heads, rows, dim): packed if the elements of a row are neighbours in the
 * given one, or in a packed one, which may be zeros; else with a gap after each element. */
clattn_layout ca_class_layout(const clattn_layout *given, size_t heads, size_t rows, size_t dim);
clattn_layout ca_class_layout_of(int has_neighbours, size_t heads, size_t rows, size_t dim);

/* Halves the largest of three sizes: rounding up may take huge dims past the limits of indexing. */
void ca_halve_largest(size_t *a, size_t *b, size_t *c);

#endif
