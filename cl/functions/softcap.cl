/* SPDX-License-Identifier: Apache-2.0 */
/* A soft limit of scores, as Gemma 2 has it. */
#pragma clattn parameter float cap = 50

float score(float s, pair p, operands o)
{
    return o.cap * tanh(s * (1.0f / o.cap));
}

float score_derivative(float s, pair p, operands o)
{
    const float t = tanh(s * (1.0f / o.cap));

    return 1.0f - t * t;
}
