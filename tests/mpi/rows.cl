/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that no part has a range of, and the lengths of sequences. */
#pragma clattn operand float rows[h][q]
#pragma clattn operand half keys_of_heads[b][k][g]

float score(float s, pair p, operands o)
{
    const float place = (float)p.key / (float)p.keys - (float)p.query / (float)p.queries;

    return s + rows_of(o, p) * place + keys_of_heads_of(o, p);
}
