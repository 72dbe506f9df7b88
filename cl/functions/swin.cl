/* SPDX-License-Identifier: Apache-2.0 */
/* The relative position bias of Swin (Z. Liu et al., 2021) in windows of 7 x 7 tokens: a learned number for each head and
 * each of 13 x 13 offsets. */
#pragma clattn operand float table[h][13][13]
#pragma clattn parameter int width = 7

/* token / width, exact up to 2^20 tokens. CPU compilers vectorize a division of floats, but not one of integers. */
static int swin_row(int token, int width)
{
    return (int)(((float)token + 0.5f) / (float)width);
}

float score(float s, pair p, operands o)
{
    const int dy = swin_row(p.query, o.width) - swin_row(p.key, o.width);
    const int dx = p.query - p.key - dy * o.width;

    return s + table_at(o, (p.own_head * 13 + clamp(dy + 6, 0, 12)) * 13 + clamp(dx + 6, 0, 12));
}
