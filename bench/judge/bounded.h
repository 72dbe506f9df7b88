/* SPDX-License-Identifier: Apache-2.0 */
/* Values with the largest error that they may have, and how errors grow from operation to operation:
 * what is allowed to a result is decided here and in the formulas that use it, for the tests and for
 * the benchmark alike. */
#ifndef CLATTN_REFERENCE_BOUNDED_H
#define CLATTN_REFERENCE_BOUNDED_H

#include <clattn/problem.h>
#include <stdbool.h>

struct bounded {
    double value, bound; /* A NaN or an infinity is expected as it is, whatever the bound. */
};

/* Returns whether got is within the bound of the expected value. False for an unexpected NaN. */
bool within(double got, struct bounded want);

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* The precision of the arithmetic that results are held to; it starts from the data as stored. */
enum precision {
    PRECISION_SINGLE, /* u = 2^-24: what clattn promises. */
    PRECISION_PEER,   /* u = 2^-24, of a library that computes o and lse anew for gradients. */
    PRECISION_HALF, /* u = 2^-11, or 2^-8 for bf16 storage: libraries that multiply and add in f16 or
                       * TF32, or keep scores and weights in the dtype of storage. Not for lse. */
    PRECISION_WORST /* u = 2^-24, all errors at their worst: what clattn's self-check promises. */
};
#define PRECISION_COUNT 4

/* Unit roundoffs. Nobody adds in bf16: libraries that store it add in f32. */
struct arithmetic {
    enum precision precision;
    double value; /* Unit roundoff of stored intermediate values: scores, weights. */
    double sum;   /* Unit roundoff of additions in a sum. */
    /* In standard precision, a weight or a gradient of a score is rounded to the dtype before the
     * next product, and moves by at most |x| * weight + weight_tiny; else 0. */
    double weight, weight_tiny;
    bool flushes; /* Operands below FLT_MIN may count as 0: x86's instructions for bf16. */
};

struct arithmetic arithmetic_of(enum precision precision, clattn_dtype dtype);

/* Allows for the rounding and flushing that a problem of standard precision permits
 * (clattn/problem.h). */
void arithmetic_relax(struct arithmetic *arithmetic, const clattn_problem *p);
/* The same where every operand has this dtype. */
void arithmetic_relax_to(struct arithmetic *arithmetic, clattn_dtype dtype);

/* A weight or a gradient of a score after it was rounded to be an operand of the next product. */
struct bounded arithmetic_operand(const struct arithmetic *arithmetic, struct bounded x);

/* The error of a product of which one operand is flushed to 0. */
double arithmetic_flushed(const struct arithmetic *arithmetic, double x, double y);

/* The bound that an error is held to. `certain` holds for any rounding errors, `likely` but for odds below 1e-7. In single
 * precision an error must be within both. */
double arithmetic_bound(const struct arithmetic *arithmetic, double certain, double likely);

/* Returns how much a sum of n terms may be off, relative to the largest of its partial sums: u
 * times about 6 sqrt(n), which is likely (N. J. Higham, T. Mary, "A New Approach to Probabilistic
 * Rounding Error Analysis", 2019). */
double arithmetic_growth(const struct arithmetic *arithmetic, size_t n);

/* The largest magnitude that a partial sum may have. Whatever the order of terms, that is the sum of their magnitudes. In
 * half precision this bound is too wide to find any error. There the order is taken to be random: then a partial sum differs
 * from its share of the whole by at most 3 sqrt(sum of squares), but for odds below 1e-7. */
double arithmetic_reach(const struct arithmetic *arithmetic, double sum, double magnitude,
                        double squares);

/* Errors that are added up: arithmetic_part() of each is added, and arithmetic_parts_sum() of the sum is the whole error.
 * In half precision they count as independent, since the sum of their magnitudes would allow any result. */
double arithmetic_part(const struct arithmetic *arithmetic, double error);
double arithmetic_parts_sum(const struct arithmetic *arithmetic, double parts);

/* The relative error that a weight may have: less than 1, as a weight of 0 or of twice its value is wrong in any
 * arithmetic. */
double arithmetic_weight_error(const struct arithmetic *arithmetic, double error);

/* ---- products and sums ----------------------------------------------------------------------- */

/* Two vectors' product, with the sum of its terms' magnitudes and that of their squares. */
struct dot {
    double sum, magnitude, squares;
};

struct dot dot_of(const double *x, const double *y, size_t n);

/* The likely error of adding up a dot product of n terms. */
double dot_error(const struct arithmetic *arithmetic, const struct dot *dot, size_t n);

/* ---- errors carried along, at their worst ---------------------------------------------------- */

struct bounded bounded_exactly(double value);
struct bounded bounded_times(struct bounded a, struct bounded b);

/* The value x as it is stored in memory. */
struct bounded bounded_stored(clattn_dtype dtype, struct bounded x);

#endif
