/* SPDX-License-Identifier: Apache-2.0 */
/* T5's relative bias of encoders (C. Raffel et al., 2020): a learned number for each head and bucket of distances, 16 for
 * keys before the query and 16 behind it. Distances below 8 have a bucket each; the others begin at 8 * 2^(n / 2). */
#pragma clattn operand float table[h][32]

float score(float s, pair p, operands o)
{
    const int distance = p.key - p.query, apart = abs(distance);
    const int bucket = min(apart, 8) + (apart >= 12) + (apart >= 16) + (apart >= 23) +
                       (apart >= 32) + (apart >= 46) + (apart >= 64) + (apart >= 91);

    return s + table_at(o, p.own_head * 32 + bucket + (distance > 0) * 16);
}
