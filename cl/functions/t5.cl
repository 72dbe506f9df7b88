/* SPDX-License-Identifier: Apache-2.0 */
/* T5's relative bias (C. Raffel et al., 2020): a learned number for each head and bucket of distances. The nearest
 * distances have a bucket each, farther ones share buckets whose widths grow in proportion. */
#pragma clattn operand float table[h][32]
#pragma clattn parameter int bidirectional = 1
#pragma clattn parameter int farthest = 128

int t5_bucket(pair p, operands o)
{
    const int distance = p.key - p.query, buckets = o.bidirectional ? 16 : 32, exact = buckets / 2;
    const int apart = o.bidirectional ? abs(distance) : max(-distance, 0);
    /* A thousandth keeps the exact powers on their side, however the logarithm is rounded. */
    const float share = log((float)max(apart, 1) / (float)exact) / log((float)o.farthest / (float)exact);
    const int far = exact + (int)(share * (float)(buckets - exact) + 0.001f);
    const int bucket = apart < exact ? apart : min(far, buckets - 1);

    return bucket + (o.bidirectional && distance > 0 ? buckets : 0);
}

float score(float s, pair p, operands o)
{
    return s + table_at(o, p.own_head * 32 + t5_bucket(p, o));
}

float score_derivative(float s, pair p, operands o)
{
    return 1.0f;
}
