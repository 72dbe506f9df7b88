/* SPDX-License-Identifier: Apache-2.0 */
/* The decomposed relative positions of Segment Anything (A. Kirillov et al., 2023): what a query adds for the row and for
 * the column of a key, in a grid of up to 64 x 64 tokens. */
#pragma clattn operand float rows[b][h][q][64]
#pragma clattn operand float columns[b][h][q][64]
#pragma clattn parameter int width = 64

/* token / width. Compilers for CPUs turn it into vectors, which a division of integers they do not. Exact up to 2^20 tokens. */
static int sam_row(int token, int width)
{
    return (int)(((float)token + 0.5f) / (float)width);
}

float score(float s, pair p, operands o)
{
    const int row = sam_row(p.key, o.width), column = p.key - row * o.width;

    return s + rows_at(o, rows_place(o, p) + row % 64) +
           columns_at(o, columns_place(o, p) + column % 64);
}
