/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbourhoods in two dimensions (NATTEN; A. Hassani et al., 2023): the square of 2 `radius` + 1 tokens around the
 * query, moved inwards at the borders of a grid of `width` x `height` tokens. */
#pragma clattn parameter int width = 56
#pragma clattn parameter int height = 56
#pragma clattn parameter int radius = 3

/* token / width. Compilers for CPUs turn it into vectors, which a division of integers they do not. Exact up to 2^20 tokens. */
static int neighborhood_row(int token, int width)
{
    return (int)(((float)token + 0.5f) / (float)width);
}

bool visible(pair p, operands o)
{
    const int row = neighborhood_row(p.query, o.width), of_key = neighborhood_row(p.key, o.width);
    const int x = clamp(p.query - row * o.width, o.radius, o.width - 1 - o.radius);
    const int y = clamp(row, o.radius, o.height - 1 - o.radius);

    return abs(p.key - of_key * o.width - x) <= o.radius && abs(of_key - y) <= o.radius;
}
