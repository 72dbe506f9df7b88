/* SPDX-License-Identifier: Apache-2.0 */
/* u is the error of one f32 operation, relative to its result. OpenCL 1.2 allows 2.5 ulp = 5 u to a quotient. A sum or a
 * product of exact numbers that f32 holds is exact. */
#include "bench/judge/function_number.h"

#include <float.h>
#include <math.h>

static const double most = 1e30; /* as bound: nothing is known */

bool number_decide(struct decisions *d, bool likely, bool open)
{
    if (!open)
        return likely;
    if (d->count == MOST_DECISIONS) {
        d->unsure = true;
        return likely;
    }
    return likely != (d->plan >> d->count++ & 1);
}

struct number number_of_integer(enum number_type type, int64_t integer)
{
    const int64_t wrapped = type == NUMBER_BOOL   ? integer != 0
                            : type == NUMBER_INT  ? (int32_t)(uint32_t)integer
                            : type == NUMBER_UINT ? (int64_t)(uint32_t)integer
                                                  : integer;

    return (struct number){.type = type, .integer = wrapped};
}

struct number number_of_float(double value, double bound)
{
    return (struct number){.type = NUMBER_FLOAT, .value = {value, bound}};
}

/* ---- values with errors ------------------------------------------------------------------------ */

struct bounded number_rounded(const struct decisions *d, double value, double bound, double units)
{
    if (fabs(value) > (double)FLT_MAX)
        value = copysign(INFINITY, value);
    if (!isfinite(value))
        return bounded_exactly(value);
    bound += units * d->u * (fabs(value) + bound) + (units > 0.0 ? (double)FLT_MIN : 0.0);
    return (struct bounded){value, bound < most ? bound : most};
}

static bool is_exact(struct bounded a, struct bounded b, double value)
{
    return !(a.bound > 0.0) && !(b.bound > 0.0) && (double)(float)value == value &&
           (value == 0.0 || fabs(value) >= (double)FLT_MIN);
}

struct bounded number_plus(const struct decisions *d, struct bounded a, struct bounded b)
{
    const double value = a.value + b.value;

    return number_rounded(d, value, a.bound + b.bound, is_exact(a, b, value) ? 0.0 : 1.0);
}

struct bounded number_times(const struct decisions *d, struct bounded a, struct bounded b)
{
    const double value = a.value * b.value;

    if (!isfinite(value))
        return bounded_exactly(value);
    return number_rounded(d, value,
                          fabs(a.value) * b.bound + fabs(b.value) * a.bound + a.bound * b.bound,
                          is_exact(a, b, value) ? 0.0 : 1.0);
}

struct bounded number_over(const struct decisions *d, struct bounded a, struct bounded b)
{
    const double least = fabs(b.value) - b.bound, value = a.value / b.value;

    if (!isfinite(value) || isinf(b.value))
        return bounded_exactly(value);
    return number_rounded(d, value, least > 0.0 ? (a.bound + fabs(value) * b.bound) / least : most,
                          5.0);
}

static struct bounded negative(struct bounded a)
{
    return (struct bounded){-a.value, a.bound};
}

static bool is_zero(struct bounded a)
{
    return !(fabs(a.value) > 0.0) && !(a.bound > 0.0);
}

/* ---- conversion -------------------------------------------------------------------------------- */

/* Towards 0, by the value's error to either side of a whole number. */
static int64_t whole(struct decisions *d, struct bounded x)
{
    const double low = trunc(x.value - x.bound), high = trunc(x.value + x.bound);
    const double here = trunc(x.value), other = low < here ? low : high;

    if (!(fabs(x.value) < 0x1p62))
        return 0;
    if (high - low > 1.0)
        d->unsure = true;
    return (int64_t)(number_decide(d, true, low < high) ? here : other);
}

struct number number_convert(struct decisions *d, struct number x, enum number_type type)
{
    if (x.type == type || x.type >= NUMBER_PAIR || x.type == NUMBER_VOID)
        return x;
    if (type == NUMBER_FLOAT) {
        const double value = (double)x.integer;
        return number_of_float(value, (double)(float)value == value ? 0.0 : d->u * fabs(value));
    }
    if (type == NUMBER_BOOL)
        return number_of_integer(type, number_is_true(d, x));
    return number_of_integer(type, x.type == NUMBER_FLOAT ? whole(d, x.value) : x.integer);
}

bool number_is_true(struct decisions *d, struct number x)
{
    return !number_equal(d, x, number_of_integer(NUMBER_INT, 0));
}

enum number_type number_common(enum number_type a, enum number_type b)
{
    const enum number_type higher = a > b ? a : b;

    return higher < NUMBER_INT ? NUMBER_INT : higher;
}

/* ---- comparison -------------------------------------------------------------------------------- */

static bool is_open(struct bounded a, struct bounded b)
{
    const double errors = a.bound + b.bound;

    return errors > 0.0 && isfinite(a.value) && isfinite(b.value) &&
           fabs(a.value - b.value) <= errors;
}

bool number_less(struct decisions *d, struct number a, struct number b)
{
    const enum number_type type = number_common(a.type, b.type);

    a = number_convert(d, a, type);
    b = number_convert(d, b, type);
    if (type != NUMBER_FLOAT)
        return a.integer < b.integer;
    return number_decide(d, a.value.value < b.value.value, is_open(a.value, b.value));
}

bool number_equal(struct decisions *d, struct number a, struct number b)
{
    const enum number_type type = number_common(a.type, b.type);

    a = number_convert(d, a, type);
    b = number_convert(d, b, type);
    if (type != NUMBER_FLOAT)
        return a.integer == b.integer;
    return number_decide(d,
                         !(a.value.value < b.value.value) && !(a.value.value > b.value.value) &&
                             !isnan(a.value.value) && !isnan(b.value.value),
                         is_open(a.value, b.value));
}

/* ---- operators --------------------------------------------------------------------------------- */

struct number number_unary(struct decisions *d, int op, struct number a)
{
    if (op == '!')
        return number_of_integer(NUMBER_INT, !number_is_true(d, a));
    if (a.type == NUMBER_FLOAT)
        return op == '-' ? (struct number){.type = NUMBER_FLOAT,
                                           .value = negative(a.value),
                                           .slope = negative(a.slope)}
                         : a;
    const enum number_type type = number_common(a.type, NUMBER_INT);
    const int64_t x = a.integer;
    return number_of_integer(type, op == '-' ? -x : op == '~' ? ~x : x);
}

static struct number of_floats(const struct decisions *d, int op, struct number a, struct number b)
{
    const bool sloped = !is_zero(a.slope) || !is_zero(b.slope);
    struct number x = {.type = NUMBER_FLOAT};

    switch (op) {
    case '-':
        b.value = negative(b.value);
        b.slope = negative(b.slope);
        /* fall through */
    case '+':
        x.value = number_plus(d, a.value, b.value);
        if (sloped)
            x.slope = number_plus(d, a.slope, b.slope);
        break;
    case '*':
        x.value = number_times(d, a.value, b.value);
        if (sloped)
            x.slope = number_plus(d, is_zero(a.slope) ? a.slope : number_times(d, a.slope, b.value),
                                  is_zero(b.slope) ? b.slope : number_times(d, b.slope, a.value));
        break;
    default:
        x.value = number_over(d, a.value, b.value);
        if (sloped)
            x.slope = number_over(
                d, number_plus(d, a.slope, negative(number_times(d, b.slope, x.value))), b.value);
    }
    return x;
}

static int64_t of_integers(int op, int64_t a, int64_t b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;

    switch (op) {
    case '+':
        return (int64_t)(x + y);
    case '-':
        return (int64_t)(x - y);
    case '*':
        return (int64_t)(x * y);
    case '/':
        return b == 0 ? 0 : a / b;
    case '%':
        return b == 0 ? 0 : a % b;
    case '&':
        return a & b;
    case '|':
        return a | b;
    case '^':
        return a ^ b;
    case OPERATOR('<', '<'):
        return (int64_t)(x << (y & 31));
    default:
        return a >> (y & 31);
    }
}

static bool is_nan(struct number x)
{
    return x.type == NUMBER_FLOAT && isnan(x.value.value);
}

/* Returns whether op compares, and gives the result if so. */
static bool compares(struct decisions *d, int op, struct number a, struct number b, bool *result)
{
    const bool unordered = is_nan(a) || is_nan(b);

    switch (op) {
    case '<':
        *result = number_less(d, a, b);
        return true;
    case '>':
        *result = number_less(d, b, a);
        return true;
    case OPERATOR('<', '='):
        *result = !unordered && !number_less(d, b, a);
        return true;
    case OPERATOR('>', '='):
        *result = !unordered && !number_less(d, a, b);
        return true;
    case OPERATOR('=', '='):
        *result = number_equal(d, a, b);
        return true;
    case OPERATOR('!', '='):
        *result = !number_equal(d, a, b);
        return true;
    default:
        return false;
    }
}

struct number number_binary(struct decisions *d, int op, struct number a, struct number b)
{
    const bool shifts = op == OPERATOR('<', '<') || op == OPERATOR('>', '>');
    const enum number_type type =
        shifts ? number_common(a.type, NUMBER_INT) : number_common(a.type, b.type);
    bool result;

    if (compares(d, op, a, b, &result))
        return number_of_integer(NUMBER_INT, result);
    a = number_convert(d, a, type);
    b = shifts ? b : number_convert(d, b, type);
    if (type == NUMBER_FLOAT)
        return of_floats(d, op, a, b);
    return number_of_integer(type, of_integers(op, a.integer, b.integer));
}
