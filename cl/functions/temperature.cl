/* SPDX-License-Identifier: Apache-2.0 */
/* A factor of the scores for each head, which may be learned. */
#pragma clattn operand float temperature[h]

float score(float s, pair p, operands o)
{
    return s * temperature_at(o, p.own_head);
}
