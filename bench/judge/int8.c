/* SPDX-License-Identifier: Apache-2.0 */
/* A row whose largest magnitude is m is rounded to multiples of m / 127: off by m / 254, and by what f32 makes of the
 * quotient, its product and the difference from the mean, for which 2^-10 of it is more than enough. Smaller rows become zeros.
 *
 *     q k = q mean + q (k - mean)
 *
 * With A and B what elements of q and of k - mean are off by, the second product is off by |q| B + |k - mean| A + A B, and in
 * f32 both by (n + 12) u of their magnitudes, in place of those of q k. What the mean is off by
 * moves the distances that are rounded, not what they add up to. */
#include "bench/judge/int8.h"

#include <math.h>

double largest_of(const double *x, size_t n)
{
    double most = 0.0;

    for (size_t d = 0; d < n; d++)
        most = isnan(most) || fabs(x[d]) <= most ? most : fabs(x[d]);
    return most;
}

/* What an element of a row with this largest magnitude is off by. */
static double step_of(double most)
{
    return most < 0x1p-100 ? most : most / 254.0 * (1.0 + 0x1p-10);
}

double int8_error(const struct key_mean *mean, double u, const double *q, const double *k, size_t n)
{
    double most = 0.0, of_f32 = 0.0, error = 0.0;

    for (size_t d = 0; mean && d < n; d++) {
        const double distance = fabs(k[d] - mean->value[d]) + mean->off;
        most = isnan(most) || distance <= most ? most : distance;
    }
    const double a = step_of(largest_of(q, n)), b = mean ? step_of(most) : 0.0;
    for (size_t d = 0; d < n; d++) {
        const double distance = mean ? fabs(k[d] - mean->value[d]) + mean->off : fabs(k[d]);
        error += fabs(q[d]) * b + distance * a + a * b;
        of_f32 += fabs(q[d]) * (mean ? fabs(mean->value[d]) + distance : distance);
    }
    return error + ((double)n + 12.0) * u * of_f32;
}
