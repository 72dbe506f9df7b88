/* SPDX-License-Identifier: Apache-2.0 */
/* The functions in expressions of arrays' sizes, for kernels and for the host, which takes the
 * names of tunables and options from families/names.h. */
#pragma once

#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define DIVIDE_UP(x, by) (((x) + (by)-1) / (by))
#define ROUND_UP(x, multiple) (DIVIDE_UP(x, multiple) * (multiple))

/* SIZE(name, value) in a header of sizes: a constant of kernels; for the host, which includes the header in a function
 * behind families/names.h, a variable. */
#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
#define SIZE(name, value) enum { name = value };
#else
#define SIZE(name, value)                                                                          \
    const size_t name = value;                                                                     \
    (void)name;
#endif

/* Bytes of elements in arrays. */
enum {
    ELEMENT_BYTES = 2, /* a 16-bit element */
    INT_BYTES = 4,
    FLOAT_BYTES = 4,
    LONG_BYTES = 8,
    FLOAT4_BYTES = 16
};

enum {
    /* What compilers that align variables beside tiles in local memory may add. */
    SPARE_BYTES = 4 * INT_BYTES,
    /* Floats of each row in the workspace of gradients (cl/common/backward.h). */
    ROW_STATISTICS = 4
};
