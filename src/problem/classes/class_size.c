/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/classes/class_size.h"

#include <string.h>

size_t ca_size_rounded(size_t size, size_t most)
{
    size_t power = 1;

    if (size >= most)
        return most;
    while (power * 2 <= size)
        power *= 2;
    return size * size > 2 * power * power ? power * 2 : power; /* over sqrt(2) times the power */
}

clattn_layout ca_class_layout_of(int has_neighbours, size_t heads, size_t rows, size_t dim)
{
    if (has_neighbours)
        return (clattn_layout){{0}};
    return (clattn_layout){{2 * heads * rows * dim, 2 * rows * dim, 2 * dim, 2}};
}

clattn_layout ca_class_layout(const clattn_layout *given, size_t heads, size_t rows, size_t dim)
{
    const clattn_layout none = {{0}};
    const int packed = memcmp(given, &none, sizeof none) == 0;

    return ca_class_layout_of(packed || given->stride[3] == 1 || dim <= 1, heads, rows, dim);
}

void ca_halve_largest(size_t *a, size_t *b, size_t *c)
{
    size_t *largest = *a > *b ? a : b;

    largest = *largest > *c ? largest : c;
    *largest /= 2;
}
