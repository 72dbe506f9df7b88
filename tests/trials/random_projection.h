/* SPDX-License-Identifier: Apache-2.0 */
/* Random projections: first a kind, which is what a program is compiled for, then shapes for it. */
#ifndef TEST_RANDOM_PROJECTION_H
#define TEST_RANDOM_PROJECTION_H

#include "families/family.h"
#include "tests/support/rng.h"

/* A program costs a second or two to compile, a shape next to nothing. */
struct projection_kind {
    clattn_problem base;        /* dtypes and options */
    int x_axis, w_axis, y_axis; /* the one with a stride of 1; -1: none */
    const struct ca_family *family;
    char tunables[CA_TUNABLES_TEXT]; /* "" without a family */
};

/* Draws dtypes, options, axes and, for a family, tunables that suit it. */
struct projection_kind random_projection_kind(struct rng *r, const struct ca_family *family,
                                              const clattn_device_info *device);

/* Draws sizes and strides. The work is bounded, so that the reference takes milliseconds. */
clattn_problem random_projection_shape(struct rng *r, const struct projection_kind *kind);

#endif
