/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbourhoods in two dimensions (NATTEN; A. Hassani et al., 2023): the square of 2 `radius` + 1 tokens around the
 * query, moved inwards at the borders of a grid of `width` x `height` tokens. */
#pragma clattn parameter int width = 56
#pragma clattn parameter int height = 56
#pragma clattn parameter int radius = 3

bool visible(pair p, operands o)
{
    const int x = clamp(p.query % o.width, o.radius, o.width - 1 - o.radius);
    const int y = clamp(p.query / o.width, o.radius, o.height - 1 - o.radius);

    return abs(p.key % o.width - x) <= o.radius && abs(p.key / o.width - y) <= o.radius;
}
