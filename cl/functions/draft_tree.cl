/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of drafted tokens behind a cached prefix: the queries are the drafts, which are the last keys. Each sees the whole
 * prefix and, of the drafts, those that ancestors[query][draft] marks. */
#pragma clattn operand uchar ancestors[q][q]

bool visible(pair p, operands o)
{
    const int draft = p.key - (p.keys - p.queries);

    return draft < 0 ||
           (draft < p.queries && ancestors_at(o, p.own_query * p.queries + draft) != 0);
}
