/* SPDX-License-Identifier: Apache-2.0 */
/* The relative position bias of Swin (Z. Liu et al., 2021) in windows of 7 x 7 tokens: a learned number for each head and
 * each of 13 x 13 offsets. */
#pragma clattn operand float table[h][13][13]
#pragma clattn parameter int width = 7

float score(float s, pair p, operands o)
{
    const int dy = p.query / o.width - p.key / o.width, dx = p.query % o.width - p.key % o.width;

    return s + table_at(o, (p.own_head * 13 + clamp(dy + 6, 0, 12)) * 13 + clamp(dx + 6, 0, 12));
}
