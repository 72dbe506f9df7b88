/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the families whose UNIT multiplies matrices or pairs: fixed ones, since a sweep draws a certain
 * instruction's layout too seldom. */
#ifndef CLATTN_TEST_UNIT_PROGRAMS_H
#define CLATTN_TEST_UNIT_PROGRAMS_H

#include <stddef.h>

enum { MOST_UNIT_SHAPES = 6 };

struct unit_program {
    const char *options, *tunables;
};

/* Programs of a family on the same shapes. */
struct unit {
    const char *family;
    const struct unit_program *programs;
    size_t count;
    const char *tunables; /* of all of them; NULL: none */
    const char *values;   /* the shape that is computed with chosen values; NULL: the first */
    const char *shapes[MOST_UNIT_SHAPES];
};

extern const struct unit units[];
extern const size_t num_units;

#endif
