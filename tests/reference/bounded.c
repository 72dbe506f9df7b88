/* u = 2^-24 is the error of one f32 operation, relative to its result.
 *
 * Product     (a + e)(b + f) is off by |a| f + |b| e + e f, and u of its own.
 * Sum         of n products, added in any order: the sum of their errors, and (n + 2) u of the sum
 *             of their magnitudes.
 * Storage     half a distance between neighbours of the dtype.
 * FLT_MIN terms allow for subnormal results that a device flushes to 0. */
#include "tests/reference/bounded.h"

#include "tests/support/storage.h"
#include <float.h>
#include <math.h>

static const double u = 0x1p-24;

struct bounded bounded_exactly(const double value)
{
    return (struct bounded){value, 0.0};
}

struct bounded bounded_times(const struct bounded a, const struct bounded b)
{
    const double error = fabs(a.value) * b.bound + fabs(b.value) * a.bound + a.bound * b.bound;

    return (struct bounded){a.value * b.value, error + u * fabs(a.value * b.value) + FLT_MIN};
}

struct bounded bounded_minus(const struct bounded a, const struct bounded b)
{
    return (struct bounded){a.value - b.value,
                            a.bound + b.bound + u * (fabs(a.value) + fabs(b.value))};
}

void bounded_add(struct bounded_sum *sum, const struct bounded a, const struct bounded b)
{
    const struct bounded product = bounded_times(a, b);

    sum->value += product.value;
    sum->bound += product.bound;
    sum->magnitude += fabs(product.value) + product.bound;
    sum->terms++;
}

struct bounded bounded_total(const struct bounded_sum *sum)
{
    return (struct bounded){sum->value, sum->bound + (double)(sum->terms + 2) * u * sum->magnitude};
}

struct bounded bounded_stored(const clattn_dtype dtype, const struct bounded x)
{
    return (struct bounded){x.value, x.bound + storage_rounding(dtype, fabs(x.value) + x.bound)};
}
