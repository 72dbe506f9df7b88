/* SPDX-License-Identifier: Apache-2.0 */
/* Tells whether two tensors in one memory share a byte of an element. Gaps between strides count
 * as free. */
#ifndef CA_OVERLAP_H
#define CA_OVERLAP_H

#include "problem/problem.h"

#include <stdint.h>

/* A tensor that has elements. */
struct ca_places {
    uint64_t begin; /* the byte of its first element, in a memory that both are in */
    size_t element_bytes;
    size_t sizes[4];
    clattn_layout layout; /* explicit */
    clattn_cache cache;   /* quantized: element_bytes are a block's */
};

enum ca_overlap {
    CA_APART,
    CA_SHARED,
    CA_UNDECIDED /* the search was longer than a call may take */
};

/* The result is exact, except CA_OVERLAP_UNKNOWN. Both spans must fit 2^61 bytes. */
enum ca_overlap ca_places_overlap(const struct ca_places *a, const struct ca_places *b);

#endif
