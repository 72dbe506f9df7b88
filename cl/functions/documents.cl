/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that follow each other in a row: a token sees those of its own document, with `causal` no later ones. */
#pragma clattn operand int document[b][k]
#pragma clattn parameter int causal = 1
#pragma clattn parameter int tokens = 0

bool visible(pair p, operands o)
{
    const int row = p.own_batch * (o.tokens ? o.tokens : p.keys);

    return document_at(o, row + p.query) == document_at(o, row + p.key) &&
           (!o.causal || p.key <= p.query);
}
