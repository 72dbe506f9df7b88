/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/philox.h"

#include <math.h>

static cl_uint multiply_wide(cl_uint x, cl_uint m, cl_uint *high)
{
    const cl_ulong product = (cl_ulong)x * m;

    *high = (cl_uint)(product >> 32);
    return (cl_uint)product;
}

void ca_philox(const cl_uint key[2], const cl_uint counter[4], cl_uint words[4])
{
    cl_uint k0 = key[0], k1 = key[1];
    cl_uint x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];

    for (int round = 0; round < 10; round++) {
        cl_uint high_0, high_2;
        const cl_uint low_0 = multiply_wide(x0, 0xd2511f53u, &high_0);
        const cl_uint low_2 = multiply_wide(x2, 0xcd9e8d57u, &high_2);
        x0 = high_2 ^ x1 ^ k0;
        x2 = high_0 ^ x3 ^ k1;
        x1 = low_2;
        x3 = low_0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    words[0] = x0;
    words[1] = x1;
    words[2] = x2;
    words[3] = x3;
}

cl_uint ca_drop_below(const clattn_problem *p)
{
    /* dropout < 1 makes this at most 2^32 - 2^8 */
    return (cl_uint)nearbyint((double)p->dropout * 0x1p32);
}

double ca_dropout_factor(const clattn_problem *p, cl_ulong seed, cl_uint offset, size_t b, size_t h,
                         size_t i, size_t j)
{
    const cl_uint key[2] = {(cl_uint)seed, (cl_uint)(seed >> 32)};
    const cl_uint counter[4] = {(cl_uint)(j / 4), (cl_uint)i, (cl_uint)(b * p->heads + h), offset};
    cl_uint words[4];

    ca_philox(key, counter, words);
    return words[j % 4] < ca_drop_below(p) ? 0.0 : 1.0 / (1.0 - (double)p->dropout);
}
