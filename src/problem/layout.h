/* SPDX-License-Identifier: Apache-2.0 */
/* Strides: the extent of a tensor, and whether its elements overlap. */
#ifndef CA_LAYOUT_H
#define CA_LAYOUT_H

#include <clattn/problem.h>

_Static_assert(sizeof(size_t) >= 8, "sizes of tensors are counted in 64 bits");

/* Element indices stay below this, so byte offsets fit 63 bits. */
#define CA_MAX_ELEMENTS ((size_t)1 << 58)

/* Returns false if a * b overflows. */
int ca_multiply(size_t a, size_t b, size_t *product);

/* Returns whether order, which may be NULL, is a permutation of "bhsd". */
int ca_layout_is_order(const char *order);

/* Strides of a packed tensor whose axes lie in memory in this order, a permutation of "bhsd". 0 if
 * a size_t cannot hold the product of the sizes (0 counts as 1): strides that it cannot hold are
 * SIZE_MAX, which no span allows. */
int ca_layout_pack(const char *order, const size_t sizes[4], clattn_layout *layout);

/* Strides of a packed tensor of some of the axes, bit n for axis n, which broadcasts along the
 * others; likewise. */
int ca_layout_spread(unsigned axes, const size_t sizes[4], clattn_layout *layout);

/* The number of elements from the first to the last, both included; 0 if a size is 0. False if
 * it exceeds CA_MAX_ELEMENTS. */
int ca_layout_span(const clattn_layout *layout, const size_t sizes[4], size_t *span);

/* The layout itself, or the packed layout if it is four zeros. */
clattn_layout ca_layout_explicit(const clattn_layout *layout, const size_t sizes[4]);

/* Returns true if, sorted by stride, each axis steps over the extent of the smaller ones: no two
 * elements then overlap. The span must have been found to fit. */
int ca_layout_injective(const clattn_layout *layout, const size_t sizes[4]);

/* Returns whether a row along the axis is contiguous, and every other stride a multiple of
 * `piece` elements. */
int ca_layout_in_pieces(const clattn_layout *layout, size_t along, size_t piece);

/* Returns whether there is an element at position n, of an injective layout. */
int ca_layout_holds(const clattn_layout *layout, const size_t sizes[4], size_t n);

#endif
