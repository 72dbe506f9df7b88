/* SPDX-License-Identifier: Apache-2.0 */
/* T5's relative bias of decoders (C. Raffel et al., 2020): a learned number for each head and bucket of distances to keys
 * before the query. Distances below 16 have a bucket each; the others begin at 16 * 8^(n / 16). */
#pragma clattn operand float table[h][32]

float score(float s, pair p, operands o)
{
    const int before = max(p.query - p.key, 0);
    const int bucket = min(before, 16) + (before >= 19) + (before >= 21) + (before >= 24) +
                       (before >= 27) + (before >= 31) + (before >= 35) + (before >= 40) +
                       (before >= 46) + (before >= 52) + (before >= 59) + (before >= 67) +
                       (before >= 77) + (before >= 87) + (before >= 99) + (before >= 113);

    return s + table_at(o, p.own_head * 32 + bucket);
}
