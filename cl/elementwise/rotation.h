/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding (RoPE) of columns: their pairs, and sines and cosines of a position's
 * angles.
 *
 * An angle is position * base^(-2 i / ROTARY_DIM), with a relative error of 2^-40. The host gives
 * base^(-2 / ROTARY_DIM) as a sum of two floats. Its i-th power comes by squaring such sums, and
 * multiples of pi / 2 are taken off before rounding to one float. Given tables replace it. */
#pragma once
#include "elementwise/append.h"
#include "families/append_tokens/append_tokens_sizes.h"

#define PAIRS 1
#define HALVES 2

/* A number as a sum of two floats; the second is below the last digit of the first. */
struct twice {
    lanes high, low;
};

INLINE struct twice product(const struct twice x, const struct twice y)
{
    struct twice z;
    const lanes p = x.high * y.high;
    const lanes rest = fma(x.high, y.high, -p) + (x.high * y.low + x.low * y.high);

    z.high = p + rest;
    z.low = rest - (z.high - p);
    return z;
}

/* Computes sine and cosine of angle.high + angle.low, less multiples of pi / 2; the angle is below
 * 2^22. */
#define FARTHEST 4194304L
INLINE lanes sine_cosine(const struct twice angle, lanes *cosine)
{
    const lanes n = (angle.high * 0.636619772f + 12582912.0f) - 12582912.0f;
    const ints quadrant = VECTOR(convert_int)(n);
    lanes r = fma(n, (lanes)(-1.57079601f), angle.high);
    r = fma(n, (lanes)(-3.13916473e-07f), r);
    r = fma(n, (lanes)(-5.39030295e-15f), r) + angle.low;
    const lanes z = r * r;
    lanes s = fma(z, (lanes)(-1.9515296e-4f), (lanes)(8.33216087e-3f));
    s = fma(z, s, (lanes)(-0.166666546f));
    s = fma(r * z, s, r);
    lanes c = fma(z, (lanes)(2.44331571e-5f), (lanes)(-1.38873162e-3f));
    c = fma(z, c, (lanes)(4.16666456e-2f));
    c = fma(z, c, (lanes)(-0.5f));
    c = fma(z, c, (lanes)(1.0f));
    const ints odd = (quadrant & 1) != 0;
    const lanes sine = odd ? c : s, other = odd ? s : c;
    *cosine = ((quadrant + 1) & 2) != 0 ? -other : other;
    return (quadrant & 2) != 0 ? -sine : sine;
}

/* The number of a column's pair, whether the column is the pair's first, and the pair's other
 * column. */
INLINE int pair_of(const int d)
{
    return ROTARY == PAIRS ? d >> 1 : d < ROTARY_DIM / 2 ? d : d - ROTARY_DIM / 2;
}

INLINE bool is_first(const int d)
{
    return ROTARY == PAIRS ? (d & 1) == 0 : d < ROTARY_DIM / 2;
}

INLINE int partner_of(const int d)
{
    return ROTARY == PAIRS ? d ^ 1 : d < ROTARY_DIM / 2 ? d + ROTARY_DIM / 2 : d - ROTARY_DIM / 2;
}

#if ROTARY
/* The cosines and sines that columns are rotated by at a position. A sine is negative for the
 * first column of a pair; columns that are not rotated have 1 and 0. */
struct turn {
    lanes cosine[TURNED], sine[TURNED];
};

/* Returns how many of an item's vectors of columns, from column d on, are rotated. */
INLINE int turned_vectors(const int d)
{
    return clamp((ROTARY_DIM - d + SIMD_WIDTH - 1) / SIMD_WIDTH, 0, TURNED);
}

/* 1 if columns are whole vectors of pairs, in halves: the second half has the angles of the
 * first. */
#define REPEATS_HALVES                                                                             \
    (ROTARY == HALVES && WHOLE_ROWS && ROTARY_DIM / 2 % SIMD_WIDTH == 0 && ROTARY_DIM % 2 == 0)

#if !HAS_TABLES
/* Computes base^(-2 i / ROTARY_DIM) for the pairs i of columns d .. d + SIMD_WIDTH - 1. */
INLINE struct twice power_of(const struct append_arguments *args, const int d)
{
    struct twice power = {1.0f, 0.0f}, square = {args->shape->power_high, args->shape->power_low};
    int pairs[SIMD_WIDTH];

    for (int n = 0; n < SIMD_WIDTH; n++)
        pairs[n] = d + n < ROTARY_DIM ? pair_of(d + n) : 0;
    const ints index = VECTOR(vload)(0, pairs);
    for (int bit = 1; bit < ROTARY_DIM; bit *= 2) {
        const struct twice next = product(power, square);
        const ints set = (index & bit) != 0;
        power.high = set ? next.high : power.high;
        power.low = set ? next.low : power.low;
        square = product(square, square);
    }
    return power;
}
#endif

/* Computes the powers of base for an item's columns, from column d on. */
INLINE void find_powers(const struct append_arguments *args, const int d, struct twice *powers)
{
#if !HAS_TABLES
    for (int v = 0; v < turned_vectors(d); v++)
        powers[v] = power_of(args, d + v * SIMD_WIDTH);
#endif
}

/* Computes cosines and sines of a vector of columns from column c on. */
INLINE void turn_vector(const struct append_arguments *args, const long position, const int c,
                        const struct twice *power, lanes *cosine, lanes *sine)
{
    float x[SIMD_WIDTH], y[SIMD_WIDTH];

#if HAS_TABLES
    const long row = clamp(position, 0L, args->shape->rotary_length - 1) * (ROTARY_DIM / 2);
    for (int n = 0; n < SIMD_WIDTH; n++) {
        x[n] = c + n < ROTARY_DIM ? args->cos[row + pair_of(c + n)] : 1.0f;
        y[n] = c + n < ROTARY_DIM ? args->sin[row + pair_of(c + n)] : 0.0f;
    }
#else
    const struct twice whole = {(float)clamp(position, -FARTHEST, FARTHEST), 0.0f};
    const lanes sines = sine_cosine(product(*power, whole), cosine);
    if (REPEATS_HALVES) {
        *sine = is_first(c) ? -sines : sines;
        return;
    }
    VECTOR(vstore)(*cosine, 0, x);
    VECTOR(vstore)(sines, 0, y);
#endif
    for (int n = 0; n < SIMD_WIDTH; n++) {
        x[n] = c + n < ROTARY_DIM ? x[n] : 1.0f;
        y[n] = c + n >= ROTARY_DIM ? 0.0f : is_first(c + n) ? -y[n] : y[n];
    }
    *cosine = VECTOR(vload)(0, x);
    *sine = VECTOR(vload)(0, y);
}

/* Computes the cosines and sines of all of an item's columns, from column d on. */
INLINE void find_turn(const struct append_arguments *args, const long position, const int d,
                      const struct twice *powers, struct turn *turn)
{
    const int vectors = turned_vectors(d), angles = REPEATS_HALVES ? vectors / 2 : vectors;

    for (int v = 0; v < angles; v++)
        turn_vector(args, position, d + v * SIMD_WIDTH, powers + v, &turn->cosine[v],
                    &turn->sine[v]);
    for (int v = angles; v < vectors; v++) {
        turn->cosine[v] = turn->cosine[v - angles];
        turn->sine[v] = -turn->sine[v - angles];
    }
}
#else
struct turn {
    char none;
};
#endif
