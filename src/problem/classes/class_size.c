/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/classes/class_size.h"

size_t ca_size_rounded(size_t size, size_t most)
{
    size_t power = 1;

    if (size >= most)
        return most;
    while (power * 2 <= size)
        power *= 2;
    return size * size > 2 * power * power ? power * 2 : power; /* over sqrt(2) times the power */
}
