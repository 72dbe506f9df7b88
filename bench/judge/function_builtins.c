/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of built-in functions in ulp are those that OpenCL 1.2 allows (7.4), an ulp being 2 u. What it leaves to the
 * device, native_ functions, is taken to be within 8 ulp, and where the argument is large, 4 ulp of it more. An error of the
 * argument moves the result by what the ends of its range do. The slope of a function is as wrong as its formula makes it:
 * 16 u of it, and where it is a difference of numbers near 1, as 1 - tanh^2, 40 u at all. */
#include "bench/judge/function_builtins.h"

#include <math.h>
#include <string.h>

/* ---- functions of one float -------------------------------------------------------------------- */

static double exp10_of(double x)
{
    return pow(10.0, x);
}
static double rsqrt_of(double x)
{
    return 1.0 / sqrt(x);
}
static double recip_of(double x)
{
    return 1.0 / x;
}
static double slope_exp2(double x)
{
    return log(2.0) * exp2(x);
}
static double slope_exp10(double x)
{
    return log(10.0) * exp10_of(x);
}
static double slope_log2(double x)
{
    return 1.0 / (log(2.0) * x);
}
static double slope_log10(double x)
{
    return 1.0 / (log(10.0) * x);
}
static double slope_log1p(double x)
{
    return 1.0 / (1.0 + x);
}
static double slope_sqrt(double x)
{
    return 0.5 / sqrt(x);
}
static double slope_rsqrt(double x)
{
    return -0.5 / (x * sqrt(x));
}
static double slope_recip(double x)
{
    return -1.0 / (x * x);
}
static double slope_cbrt(double x)
{
    return 1.0 / (3.0 * cbrt(x) * cbrt(x));
}
static double slope_cos(double x)
{
    return -sin(x);
}
static double slope_tan(double x)
{
    return 1.0 + tan(x) * tan(x);
}
static double slope_tanh(double x)
{
    return 1.0 - tanh(x) * tanh(x);
}
static double slope_asin(double x)
{
    return 1.0 / sqrt(1.0 - x * x);
}
static double slope_acos(double x)
{
    return -slope_asin(x);
}
static double slope_atan(double x)
{
    return 1.0 / (1.0 + x * x);
}
static double slope_erf(double x)
{
    return 2.0 / sqrt(3.14159265358979323846) * exp(-x * x);
}
static double slope_erfc(double x)
{
    return -slope_erf(x);
}

/* Smooth functions: value, derivative, ulp, and units by which the derivative may be wrong at all. */
static const struct smooth {
    const char *name;
    double (*value)(double), (*slope)(double);
    double ulp, slope_units;
} smooth[] = {
    {"exp", exp, exp, 3, 0},
    {"exp2", exp2, slope_exp2, 3, 0},
    {"exp10", exp10_of, slope_exp10, 3, 0},
    {"expm1", expm1, exp, 3, 0},
    {"log", log, recip_of, 3, 0},
    {"log2", log2, slope_log2, 3, 0},
    {"log10", log10, slope_log10, 3, 0},
    {"log1p", log1p, slope_log1p, 2, 0},
    {"sqrt", sqrt, slope_sqrt, 3, 0},
    {"rsqrt", rsqrt_of, slope_rsqrt, 2, 0},
    {"cbrt", cbrt, slope_cbrt, 2, 0},
    {"sin", sin, cos, 4, 16},
    {"cos", cos, slope_cos, 4, 16},
    {"tan", tan, slope_tan, 5, 0},
    {"sinh", sinh, cosh, 4, 0},
    {"cosh", cosh, sinh, 4, 16},
    {"tanh", tanh, slope_tanh, 5, 40},
    {"asin", asin, slope_asin, 4, 0},
    {"acos", acos, slope_acos, 4, 0},
    {"atan", atan, slope_atan, 5, 0},
    {"erf", erf, slope_erf, 16, 0},
    {"erfc", erfc, slope_erfc, 16, 0},
    {"recip", recip_of, slope_recip, 3, 0},
};
enum { SMOOTH = sizeof smooth / sizeof *smooth };

/* The furthest that f is from f(x) at the ends of the argument's range; no f32 is further off than 1e30. */
static double moved(double (*f)(double), struct bounded x)
{
    const double here = f(x.value);

    if (!(x.bound > 0.0))
        return 0.0;
    const double low = fabs(f(x.value - x.bound) - here), high = fabs(f(x.value + x.bound) - here);
    const double furthest = low > high ? low : high;
    return isfinite(low) && isfinite(high) ? furthest : 1e30;
}

static struct number smooth_of(struct decisions *d, const struct smooth *f, bool native,
                               struct number x)
{
    const double far = native ? 8.0 + 4.0 * fabs(x.value.value) : f->ulp;
    struct number y = {.type = NUMBER_FLOAT};

    y.value = number_rounded(d, f->value(x.value.value), moved(f->value, x.value), 2.0 * far);
    if (fabs(x.slope.value) > 0.0 || x.slope.bound > 0.0) {
        const struct bounded slope =
            number_rounded(d, f->slope(x.value.value),
                           moved(f->slope, x.value) + f->slope_units * d->u, 16.0 + 2.0 * far);
        y.slope = number_times(d, slope, x.slope);
    }
    return y;
}

/* ---- functions in steps ------------------------------------------------------------------------ */

static double sign_of(double x)
{
    return (x > 0.0) - (x < 0.0);
}

/* Functions whose value jumps. */
static const struct stepped {
    const char *name;
    double (*value)(double);
} stepped[] = {{"floor", floor}, {"ceil", ceil},   {"round", round},
               {"rint", rint},   {"trunc", trunc}, {"sign", sign_of}};
enum { STEPPED = sizeof stepped / sizeof *stepped };

static struct number stepped_of(struct decisions *d, const struct stepped *f, struct number x)
{
    const double low = f->value(x.value.value - x.value.bound);
    const double high = f->value(x.value.value + x.value.bound), here = f->value(x.value.value);

    if (!(low < high))
        return number_of_float(here, 0.0);
    if (high - low > 2.0)
        return number_of_float(here, high - low);
    const bool keeps = number_decide(d, true, true);
    return number_of_float(keeps ? here : here > low ? low : high, 0.0);
}

/* ---- all --------------------------------------------------------------------------------------- */

enum special {
    FABS,
    FMIN,
    FMAX,
    MIN,
    MAX,
    CLAMP,
    ABS,
    POW,
    FMOD,
    HYPOT,
    STEP,
    MIX,
    MAD,
    FMA,
    SELECT,
    ISNAN,
    ISINF,
    MUL24,
    MAD24,
    DIVIDE,
    CONVERT_INT,
    CONVERT_FLOAT
};

static const struct {
    const char *name;
    enum special function;
    size_t arguments;
} specials[] = {
    {"fabs", FABS, 1},
    {"fmin", FMIN, 2},
    {"fmax", FMAX, 2},
    {"min", MIN, 2},
    {"max", MAX, 2},
    {"clamp", CLAMP, 3},
    {"abs", ABS, 1},
    {"pow", POW, 2},
    {"powr", POW, 2},
    {"pown", POW, 2},
    {"native_powr", POW, 2},
    {"fmod", FMOD, 2},
    {"hypot", HYPOT, 2},
    {"step", STEP, 2},
    {"mix", MIX, 3},
    {"mad", MAD, 3},
    {"fma", FMA, 3},
    {"select", SELECT, 3},
    {"isnan", ISNAN, 1},
    {"isinf", ISINF, 1},
    {"mul24", MUL24, 2},
    {"mad24", MAD24, 3},
    {"native_divide", DIVIDE, 2},
    {"convert_int", CONVERT_INT, 1},
    {"convert_int_rtz", CONVERT_INT, 1},
    {"convert_float", CONVERT_FLOAT, 1},
};
enum { SPECIAL = sizeof specials / sizeof *specials };

/* Built-in functions count: the smooth ones, these as native_ or half_ ones, those in steps, the others. */
int function_builtin(const char *name)
{
    const char *bare = strncmp(name, "native_", 7) == 0 ? name + 7
                       : strncmp(name, "half_", 5) == 0 ? name + 5
                                                        : name;

    for (int n = 0; n < SPECIAL; n++)
        if (strcmp(specials[n].name, name) == 0)
            return 2 * SMOOTH + STEPPED + n;
    for (int n = 0; n < STEPPED; n++)
        if (strcmp(stepped[n].name, name) == 0)
            return 2 * SMOOTH + n;
    for (int n = 0; n < SMOOTH; n++)
        if (strcmp(smooth[n].name, bare) == 0 && (bare != name || smooth[n].slope != slope_recip))
            return bare == name ? n : SMOOTH + n;
    return -1;
}

size_t function_builtin_arguments(int builtin)
{
    return builtin < 2 * SMOOTH + STEPPED ? 1 : specials[builtin - 2 * SMOOTH - STEPPED].arguments;
}

static struct number magnitude_of(struct decisions *d, struct number x)
{
    const bool negative = number_less(d, x, number_of_integer(NUMBER_INT, 0));

    return negative ? number_unary(d, '-', x) : x;
}

/* The lesser or the greater of two numbers; of a NaN and a number the number. */
static struct number extreme(struct decisions *d, struct number a, struct number b, bool least)
{
    const enum number_type type = number_common(a.type, b.type);

    a = number_convert(d, a, type);
    b = number_convert(d, b, type);
    if (type == NUMBER_FLOAT && isnan(a.value.value))
        return b;
    if (type == NUMBER_FLOAT && isnan(b.value.value))
        return a;
    return number_less(d, a, b) == least ? a : b;
}

/* x^y = exp(y log(x)) by its slopes; 16 ulp. */
static struct number power(struct decisions *d, struct number x, struct number y)
{
    const double value = pow(x.value.value, y.value.value);
    const double low = fabs(x.value.value) - x.value.bound, log_x = log(fabs(x.value.value));
    const double by_x = fabs(y.value.value) * x.value.bound / (low > 0.0 ? low : 1e-30);
    const double error = expm1(by_x + (fabs(log_x) + x.value.bound) * y.value.bound);
    struct number z = {.type = NUMBER_FLOAT};

    z.value = number_rounded(d, value, fabs(value) * (isnan(error) ? 0.0 : error), 32.0);
    if (fabs(x.slope.value) > 0.0 || x.slope.bound > 0.0)
        z.slope =
            number_times(d, number_times(d, number_over(d, z.value, x.value), y.value), x.slope);
    if (fabs(y.slope.value) > 0.0 || y.slope.bound > 0.0)
        z.slope = number_plus(
            d, z.slope,
            number_times(d, number_times(d, z.value, (struct bounded){log_x, 8.0 * d->u}),
                         y.slope));
    return z;
}

static struct number remainder_of(struct decisions *d, struct number x, struct number y)
{
    const struct number whole = {.type = NUMBER_FLOAT, .value = number_over(d, x.value, y.value)};
    const struct number times = stepped_of(d, &stepped[4], whole);

    if (!(x.value.bound > 0.0) && !(y.value.bound > 0.0))
        return number_of_float(fmod(x.value.value, y.value.value), 0.0);
    return number_binary(d, '-', x, number_binary(d, '*', times, y));
}

/* Of numbers that are floats already, where the function is of floats. */
static struct number special_of(struct decisions *d, enum special f, const struct number *x)
{
    switch (f) {
    case FABS:
        return magnitude_of(d, x[0]);
    case ABS:
        return number_convert(d, magnitude_of(d, x[0]), NUMBER_UINT);
    case FMIN:
    case MIN:
        return extreme(d, x[0], x[1], true);
    case FMAX:
    case MAX:
        return extreme(d, x[0], x[1], false);
    case CLAMP:
        return extreme(d, extreme(d, x[0], x[1], false), x[2], true);
    case POW:
        return power(d, x[0], x[1]);
    case FMOD:
        return remainder_of(d, x[0], x[1]);
    case HYPOT:
        return smooth_of(d, &smooth[8], false,
                         number_binary(d, '+', number_binary(d, '*', x[0], x[0]),
                                       number_binary(d, '*', x[1], x[1])));
    case STEP:
        return number_of_float(number_less(d, x[1], x[0]) ? 0.0 : 1.0, 0.0);
    case MIX:
        return number_binary(d, '+', x[0],
                             number_binary(d, '*', number_binary(d, '-', x[1], x[0]), x[2]));
    case MAD:
    case FMA:
    case MAD24:
        return number_binary(d, '+', number_binary(d, '*', x[0], x[1]), x[2]);
    case SELECT:
        return number_is_true(d, x[2]) ? x[1] : x[0];
    case ISNAN:
        return number_of_integer(NUMBER_INT, isnan(x[0].value.value));
    case ISINF:
        return number_of_integer(NUMBER_INT, isinf(x[0].value.value) != 0);
    case MUL24:
        return number_binary(d, '*', x[0], x[1]);
    case DIVIDE:
        return number_binary(d, '/', x[0], x[1]);
    case CONVERT_INT:
        return number_convert(d, x[0], NUMBER_INT);
    default:
        return number_convert(d, x[0], NUMBER_FLOAT);
    }
}

static bool takes_floats(enum special f)
{
    return f == FABS || f == FMIN || f == FMAX || (f >= POW && f <= FMA) || f == ISNAN ||
           f == ISINF || f == DIVIDE;
}

struct number function_builtin_call(struct decisions *d, int builtin, const struct number *x)
{
    const int other = builtin - 2 * SMOOTH - STEPPED;
    struct number floats[3];

    if (other >= 0 && !takes_floats(specials[other].function))
        return special_of(d, specials[other].function, x);
    for (size_t n = 0; n < function_builtin_arguments(builtin); n++)
        floats[n] = number_convert(d, x[n], NUMBER_FLOAT);
    if (other >= 0)
        return special_of(d, specials[other].function, floats);
    if (builtin >= 2 * SMOOTH)
        return stepped_of(d, &stepped[builtin - 2 * SMOOTH], floats[0]);
    return smooth_of(d, &smooth[builtin % SMOOTH], builtin >= SMOOTH, floats[0]);
}
