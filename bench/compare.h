/* Comparing results with the answers that a file holds. */
#ifndef CLATTN_BENCH_COMPARE_H
#define CLATTN_BENCH_COMPARE_H

#include "case.h"
#include "worst.h"

/* |got - want| <= atol + rtol * (the largest |want| of the row). Negative: by dtype. */
struct tolerance {
    double rtol, atol;
};

/* Fills in what is negative: what f32 arithmetic and storage in `dtype` may cost. */
struct tolerance compare_tolerance(struct tolerance wanted, clattn_dtype dtype);

/* `got` has as many elements in the same order, of `dtype`. */
void compare_answer(struct worst *worst, const struct answer *answer, clattn_dtype dtype,
                    const void *got, struct tolerance tolerance);

#endif
