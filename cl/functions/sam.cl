/* SPDX-License-Identifier: Apache-2.0 */
/* The decomposed relative positions of Segment Anything (A. Kirillov et al., 2023): what a query adds for the row and for
 * the column of a key, in a grid of up to 64 x 64 tokens. */
#pragma clattn operand float rows[b][h][q][64]
#pragma clattn operand float columns[b][h][q][64]
#pragma clattn parameter int width = 64
#pragma clattn parameter int heads = 1
#pragma clattn parameter int tokens = 4096

float score(float s, pair p, operands o)
{
    const int query = (p.own_batch * o.heads + p.own_head) * o.tokens + p.own_query;

    return s + rows_at(o, query * 64L + p.key / o.width % 64) +
           columns_at(o, query * 64L + p.key % o.width % 64);
}
