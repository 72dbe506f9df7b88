/* SPDX-License-Identifier: Apache-2.0 */
/* u = 2^-24 is the error of one f32 operation, relative to its result.
 *
 * Product     (a + e)(b + f) is off by |a| f + |b| e + e f, and u of its own.
 * Sum         of n products, added in any order: the sum of their errors, and (n + 2) u of the sum
 *             of their magnitudes.
 * Storage     half a distance between neighbours of the dtype.
 * FLT_MIN terms allow for subnormal results that a device flushes to 0. */
#include "bench/judge/bounded.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>

static const double u = 0x1p-24;

bool within(double got, struct bounded want)
{
    if (isnan(want.value))
        return isnan(got);
    if (isinf(want.value))
        return got == want.value;
    return fabs(got - want.value) <= want.bound;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

struct arithmetic arithmetic_of(enum precision precision, clattn_dtype dtype)
{
    if (precision != PRECISION_HALF)
        return (struct arithmetic){.precision = precision, .value = u, .sum = u};
    if (dtype == CLATTN_BF16)
        return (struct arithmetic){.precision = precision, .value = 0x1p-8, .sum = u};
    return (struct arithmetic){.precision = precision, .value = 0x1p-11, .sum = 0x1p-11};
}

void arithmetic_relax_to(struct arithmetic *arithmetic, clattn_dtype dtype)
{
    if (dtype == CLATTN_F32)
        return;
    arithmetic->flushes = dtype == CLATTN_BF16;
    arithmetic->weight = value_roundoff(dtype);
    arithmetic->weight_tiny = value_tiny(dtype);
}

void arithmetic_relax(struct arithmetic *arithmetic, const clattn_problem *p)
{
    if (p->strict)
        return;
    if (!value_in_blocks(p->v_cache) && value_dtype(p->v_cache, p->dtype) != p->dtype)
        arithmetic->flushes = p->dtype == CLATTN_BF16;
    else
        arithmetic_relax_to(arithmetic, p->dtype);
}

struct bounded arithmetic_operand(const struct arithmetic *arithmetic, struct bounded x)
{
    const double largest = fabs(x.value) + x.bound;

    return (struct bounded){x.value, x.bound + arithmetic->weight * largest +
                                         (largest > 0.0 ? arithmetic->weight_tiny : 0.0)};
}

double arithmetic_flushed(const struct arithmetic *arithmetic, double x, double y)
{
    const bool tiny = fabs(x) < (double)FLT_MIN || fabs(y) < (double)FLT_MIN;

    return arithmetic->flushes && tiny ? fabs(x * y) : 0.0;
}

double arithmetic_bound(const struct arithmetic *arithmetic, double certain, double likely)
{
    switch (arithmetic->precision) {
    case PRECISION_SINGLE:
        return fmin(certain, likely);
    case PRECISION_WORST:
        return certain;
    default:
        return likely;
    }
}

double arithmetic_growth(const struct arithmetic *arithmetic, size_t n)
{
    return (6.0 * sqrt((double)n) + 4.0) * arithmetic->sum;
}

double arithmetic_reach(const struct arithmetic *arithmetic, double sum, double magnitude,
                        double squares)
{
    return arithmetic->precision == PRECISION_HALF
               ? fmin(magnitude, fabs(sum) + 3.0 * sqrt(squares))
               : magnitude;
}

double arithmetic_part(const struct arithmetic *arithmetic, double error)
{
    return arithmetic->precision == PRECISION_HALF ? error * error : error;
}

double arithmetic_parts_sum(const struct arithmetic *arithmetic, double parts)
{
    return arithmetic->precision == PRECISION_HALF ? sqrt(parts) : parts;
}

double arithmetic_weight_error(const struct arithmetic *arithmetic, double error)
{
    return arithmetic->precision == PRECISION_HALF ? fmin(error, 1.0) : error;
}

/* ---- products and sums ----------------------------------------------------------------------- */

struct dot dot_of(const double *x, const double *y, size_t n)
{
    struct dot dot = {.sum = 0.0};

    for (size_t d = 0; d < n; d++) {
        const double term = x[d] * y[d];
        dot.sum += term;
        dot.magnitude += fabs(term);
        dot.squares += term * term;
    }
    return dot;
}

double dot_error(const struct arithmetic *arithmetic, const struct dot *dot, size_t n)
{
    return arithmetic_growth(arithmetic, n) *
           arithmetic_reach(arithmetic, dot->sum, dot->magnitude, dot->squares);
}

/* ---- errors carried along, at their worst ---------------------------------------------------- */

struct bounded bounded_exactly(double value)
{
    return (struct bounded){value, 0.0};
}

struct bounded bounded_times(struct bounded a, struct bounded b)
{
    const double error = fabs(a.value) * b.bound + fabs(b.value) * a.bound + a.bound * b.bound;

    return (struct bounded){a.value * b.value, error + u * fabs(a.value * b.value) + FLT_MIN};
}

struct bounded bounded_stored(clattn_dtype dtype, struct bounded x)
{
    return (struct bounded){x.value, x.bound + value_rounding(dtype, fabs(x.value) + x.bound)};
}
