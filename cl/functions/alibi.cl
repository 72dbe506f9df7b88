/* SPDX-License-Identifier: Apache-2.0 */
/* ALiBi (O. Press et al., 2022): a key that lies before its query loses the head's slope for each position between. */
#pragma clattn operand float slopes[h]

float score(float s, pair p, operands o)
{
    return s + slopes_at(o, p.own_head) * (float)(p.key - p.query);
}
