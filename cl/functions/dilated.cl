/* SPDX-License-Identifier: Apache-2.0 */
/* Every `dilation`-th of the keys up to the query's own position, `window` of them (Longformer). */
#pragma clattn parameter int window = 128
#pragma clattn parameter int dilation = 2

bool visible(pair p, operands o)
{
    const int distance = p.query - p.key;

    return distance >= 0 && distance < o.window * o.dilation && distance % o.dilation == 0;
}
