/* SPDX-License-Identifier: Apache-2.0 */
/* The last `window` keys up to the query's own position, and the first `globals` keys of all (Longformer, StreamingLLM). */
#pragma clattn parameter int window = 512
#pragma clattn parameter int globals = 0

bool visible(pair p, operands o)
{
    return p.key <= p.query && (p.query - p.key < o.window || p.key < o.globals);
}
