/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/worst.h"

#include <math.h>

void worst_add(struct worst *worst, double got, double want, double bound)
{
    double error = fabs(got - want), ratio = INFINITY;

    if (got == want || (isnan(got) && isnan(want)))
        error = 0.0; /* infinities too */
    if (error <= bound)
        ratio = bound > 0.0 ? error / bound : 0.0;
    else if (bound > 0.0 && isfinite(error))
        ratio = error / bound;
    if (worst->results++ == 0 || ratio > worst->ratio) {
        worst->error = error;
        worst->bound = bound;
        worst->ratio = ratio;
    }
}

bool worst_ok(const struct worst *worst)
{
    return worst->results > 0 && worst->ratio <= 1.0;
}
