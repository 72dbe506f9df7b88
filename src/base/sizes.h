/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of sizes. */
#ifndef CA_SIZES_H
#define CA_SIZES_H

#include <stddef.h>

static inline size_t ca_smaller(size_t x, size_t y)
{
    return x < y ? x : y;
}

static inline size_t ca_larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

static inline size_t ca_divide_up(size_t x, size_t y)
{
    return (x + y - 1) / y;
}

static inline size_t ca_round_up(size_t x, size_t multiple)
{
    return ca_divide_up(x, multiple) * multiple;
}

#endif
