/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the interpreter of functions: exact integers, and floats with the error that a device's f32 may have, and with
 * their derivative by the score and its error (forward-mode differentiation). */
#ifndef CLATTN_REFERENCE_FUNCTION_NUMBER_H
#define CLATTN_REFERENCE_FUNCTION_NUMBER_H

#include "bench/judge/bounded.h"

#include <stdint.h>

enum number_type {
    NUMBER_VOID,
    NUMBER_BOOL,
    NUMBER_INT,
    NUMBER_UINT,
    NUMBER_LONG,
    NUMBER_FLOAT,
    NUMBER_PAIR,    /* of parameters, which are passed on and have no value */
    NUMBER_OPERANDS /* likewise */
};

struct number {
    enum number_type type;
    int64_t integer;             /* of all types but float */
    struct bounded value, slope; /* of a float */
};

/* Decisions of an evaluation where errors leave open which of two values is the greater one. It
 * is repeated with the other decisions: bit n of `plan` inverts decision n. */
struct decisions {
    unsigned plan;
    unsigned count;
    bool unsure; /* there were too many, or too many steps */
    double u;    /* unit roundoff of the arithmetic */
};
#define MOST_DECISIONS 4

/* `likely`, or not, if it is open. */
bool number_decide(struct decisions *d, bool likely, bool open);

struct number number_of_integer(enum number_type type, int64_t integer);
struct number number_of_float(double value, double bound);

struct number number_convert(struct decisions *d, struct number x, enum number_type type);
bool number_is_true(struct decisions *d, struct number x);

/* Return whether a < b, and whether a == b. */
bool number_less(struct decisions *d, struct number a, struct number b);
bool number_equal(struct decisions *d, struct number a, struct number b);

/* Operators are their letters; of two letters, both. */
#define OPERATOR(x, y) ((x) | (y) << 8)

struct number number_unary(struct decisions *d, int op, struct number a);
struct number number_binary(struct decisions *d, int op, struct number a, struct number b);

/* The type in which two numbers meet. */
enum number_type number_common(enum number_type a, enum number_type b);

/* A float's value and error after one more rounding of so many units, at most as wrong as any f32 can be. */
struct bounded number_rounded(const struct decisions *d, double value, double bound, double units);

/* Sums and products of values with errors, each with its rounding. */
struct bounded number_plus(const struct decisions *d, struct bounded a, struct bounded b);
struct bounded number_times(const struct decisions *d, struct bounded a, struct bounded b);
struct bounded number_over(const struct decisions *d, struct bounded a, struct bounded b);

#endif
