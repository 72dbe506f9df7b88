/* SPDX-License-Identifier: Apache-2.0 */
/* The last `window` keys up to the query's own position, and the first `globals` keys of all (Longformer, StreamingLLM). */
#pragma clattn parameter int window = 512
#pragma clattn parameter int globals = 0

bool visible(pair p, operands o)
{
    const int first = p.key < o.globals ? 0 : p.query - o.window + 1;

    return p.key <= p.query && p.key >= first;
}
