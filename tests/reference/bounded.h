/* Values that carry the largest error that they may have. tests/reference/bounded.c says how errors grow. */
#ifndef TEST_BOUNDED_H
#define TEST_BOUNDED_H

#include "tests/reference/reference.h"

/* A sum of products that is being added up; all zeros to begin with. */
struct bounded_sum {
    double value, bound, magnitude;
    size_t terms;
};

struct bounded bounded_exactly(double value);
struct bounded bounded_times(struct bounded a, struct bounded b);
struct bounded bounded_minus(struct bounded a, struct bounded b);

void bounded_add(struct bounded_sum *sum, struct bounded a, struct bounded b);
struct bounded bounded_total(const struct bounded_sum *sum);

/* What is left of x in memory. */
struct bounded bounded_stored(clattn_dtype dtype, struct bounded x);

#endif
