/* SPDX-License-Identifier: Apache-2.0 */
/* A prefix that all queries see, and causal attention behind it. */
#pragma clattn operand int prefix[b]

bool visible(pair p, operands o)
{
    return p.key <= p.query || p.key < prefix_at(o, p.own_batch);
}
