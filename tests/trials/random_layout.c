/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/random_layout.h"

clattn_layout random_layout(struct rng *r, const size_t sizes[4], const size_t unit)
{
    int order[3] = {0, 1, 2};
    clattn_layout layout;
    size_t step = unit == 1 && rng_one_in(r, 4) ? 2 : 1;

    if (rng_one_in(r, 3))
        return (clattn_layout){{0}};
    for (size_t n = 2; n > 0; n--) {
        const size_t other = rng_below(r, n + 1);
        const int axis = order[n];
        order[n] = order[other];
        order[other] = axis;
    }
    layout.stride[3] = step;
    step = step * sizes[3] + rng_below(r, 5) * unit;
    for (int n = 2; n >= 0; n--) {
        layout.stride[order[n]] = step;
        step = step * (sizes[order[n]] ? sizes[order[n]] : 1) + rng_below(r, 5) * unit;
    }
    return layout;
}
