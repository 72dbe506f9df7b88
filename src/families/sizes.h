/* SPDX-License-Identifier: Apache-2.0 */
/* The functions in expressions of arrays' sizes, for kernels and for the host, which takes the
 * names of tunables and options from families/names.h. */
#ifndef CLATTN_SIZES_H
#define CLATTN_SIZES_H

#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define DIVIDE_UP(x, by) (((x) + (by)-1) / (by))
#define ROUND_UP(x, multiple) (DIVIDE_UP(x, multiple) * (multiple))

/* Bytes of elements in arrays. */
enum {
    ELEMENT_BYTES = 2, /* a 16-bit element */
    INT_BYTES = 4,
    FLOAT_BYTES = 4,
    LONG_BYTES = 8,
    FLOAT4_BYTES = 16
};

/* The bytes that compilers may add to align variables beside tiles in local memory. */
#define SPARE_BYTES (4 * INT_BYTES)

/* The floats of each row in the workspace of gradients (cl/common/backward.h). */
#define ROW_STATISTICS 4

#endif
