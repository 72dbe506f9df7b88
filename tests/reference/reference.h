/* Attention in double precision by plain loops, written from the formula in <clattn/problem.h>.
 * It shares no code with the library. Every value comes with the largest error that f32
 * arithmetic may leave on it; reference.c derives the bounds. */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include "tests/trials/tensors.h"

struct bounded {
    double value, bound; /* a NaN or an infinity is expected as it is, whatever the bound */
};

/* What one query gives. Arrays are the row's own. */
struct reference_row {
    struct bounded *o; /* dim_v, as stored in the problem's dtype */
    struct bounded lse;
    struct bounded *scores; /* seq_kv, at the point that the problem asks for */
    double *s, *slack, *p;  /* seq_kv each: final score, relative error of exp(s - m), weight */
    double *factor;         /* seq_kv, dropout's */
};

/* Whether (b, h, i) may use key j by mask, bias, causality, window and lengths. A bias or mask
 * that the view leaves out hides nothing. */
int reference_sees(const clattn_problem *p, const struct tensor_view *view, size_t b, size_t h,
                   size_t i, size_t j);

/* j - i - diagonal, which ALiBi multiplies the slope with. */
double reference_distance(const clattn_problem *p, const struct tensor_view *view, size_t b,
                          size_t i, size_t j);

/* Room for a row; false if there is no memory. Close it in any case. */
int reference_row_open(const clattn_problem *p, struct reference_row *row);
void reference_row_close(struct reference_row *row);

void reference_row_compute(const clattn_problem *p, const struct tensor_view *view, size_t b,
                           size_t h, size_t i, struct reference_row *row);

/* Whether got is what was expected. False for a NaN that was not. */
int within(double got, struct bounded want);

#endif
